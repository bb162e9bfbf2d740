/** Finds commands by words of their title, group and hint. Pure. */

interface Searched {
  readonly group: string;
  readonly title: string;
  readonly hint?: string;
}

/** Those that have all words, the best first: the title begins with the text, a word begins with it, it is somewhere. */
export function searched<T extends Searched>(commands: readonly T[], text: string): readonly T[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return commands;
  const rated = commands.flatMap((command, index) => {
    const rate = rateOf(command, words);
    return rate === null ? [] : [{ command, rate, index }];
  });
  rated.sort((one, other) => one.rate - other.rate || one.index - other.index);
  return rated.map(({ command }) => command);
}

function rateOf({ group, title, hint = '' }: Searched, words: readonly string[]): number | null {
  const name = title.toLowerCase();
  const all = `${name} ${group.toLowerCase()} ${hint.toLowerCase()}`;
  if (!words.every((word) => all.includes(word))) return null;
  const [first = ''] = words;
  if (name.startsWith(first)) return 0;
  if (name.includes(` ${first}`)) return 1;
  return name.includes(first) ? 2 : 3;
}
