/**
 * The page's texts in the user's language. English stands where it is used and is the key of its translation, as with
 * gettext; `npm run texts` gathers it in en.json. The translations are there before the page starts (public/locale.js),
 * so texts at the top of modules are translated, too.
 */

declare global {
  /** English text → translation with the same placeholders; without it, the page is in English. */
  var tidemarkTexts: Readonly<Partial<Record<string, string>>> | undefined;
}

/** The names in braces of a text. */
type Names<Text extends string> = Text extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never;

export type Values<Text extends string, Value> = Readonly<Record<Names<Text>, Value>>;

type Given<Text extends string> = [Names<Text>] extends [never] ? [] : [values: Values<Text, string | number>];

/** The text in the user's language; `{name}` in it stands for a value. */
export function t<Text extends string>(text: Text, ...[values]: Given<Text>): string {
  return values === undefined ? translated(text) : filled(translated(text), values);
}

/** One of two texts, by a whole number that stands in them as `{count}`. */
export function plural(count: number, one: string, other: string): string {
  return filled(translated(count === 1 ? one : other), { count: count.toLocaleString('en-US') });
}

export function translated(text: string): string {
  return globalThis.tidemarkTexts?.[text] ?? text;
}

function filled(text: string, values: Readonly<Record<string, string | number>>): string {
  return text.replace(/\{(\w+)\}/g, (name, key: string) => String(values[key] ?? name));
}
