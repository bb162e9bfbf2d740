/** What the open page can do, for the command palette: each page adds its own while it is there. */

export interface Command {
  /** Unique in its group. */
  readonly id: string;
  readonly group: string;
  readonly title: string;
  /** Beside the title: a key, a type, a state. */
  readonly hint?: string;
  readonly run: () => void;
}

type Provider = () => readonly Command[];

const providers = new Set<Provider>();

/** Adds commands, which are asked for whenever the palette opens; returns what takes them away. */
export function provideCommands(provider: Provider): () => void {
  providers.add(provider);
  return () => {
    providers.delete(provider);
  };
}

export function commandsOfPage(): readonly Command[] {
  return [...providers].flatMap((provider) => provider());
}
