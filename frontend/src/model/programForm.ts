/** Parsing of the submit form's free text: program arguments with shell quoting, configuration as lines. */

import { t } from '../texts/t';

export class FormError extends Error {}

/** Splits as a shell would: blanks separate, quotes and backslashes keep. Throws FormError on an open quote. */
export function splitArguments(text: string): string[] {
  const result: string[] = [];
  let word: string | null = null;
  let quote: string | null = null;
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charAt(at);
    if (char === '\\' && quote !== "'" && at + 1 < text.length) {
      at += 1;
      word = (word ?? '') + text.charAt(at);
    } else if (quote !== null) {
      if (char === quote) quote = null;
      else word = (word ?? '') + char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (/\s/.test(char)) {
      if (word !== null) result.push(word);
      word = null;
    } else {
      word = (word ?? '') + char;
    }
  }
  if (quote !== null) throw new FormError(t('The quote {quote} is not closed.', { quote }));
  if (word !== null) result.push(word);
  return result;
}

/** The inverse: text that splits into these arguments. */
export function joinArguments(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`)).join(' ');
}

/** Lines of `key: value` or `key = value`; blank lines and # comments are skipped. Throws FormError naming the line. */
export function parseConfiguration(text: string): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [index, raw] of text.split('\n').entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const match = /^([\w.-]+)\s*(?::\s|=)\s*(.*)$/.exec(line);
    const [, key, value] = match ?? [];
    if (key === undefined || value === undefined)
      throw new FormError(t('Line {index} does not have the form "key: value".', { index: index + 1 }));
    if (key in result) throw new FormError(t('Line {index}: {key} is set twice.', { index: index + 1, key }));
    result[key] = value;
  }
  return result;
}

/** Lines with something in them, without blanks around them. */
export function linesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

/** The inverse: one line an option. */
export function configurationText(options: Readonly<Record<string, string>>): string {
  return Object.entries(options)
    .map(([key, value]) => `${key}: ${value}`)
    .join('\n');
}

const ACCEPTED = ['.py', '.zip', '.whl'] as const;
export const ACCEPTED_FILES = ACCEPTED.join(',');

/** Why a file cannot be uploaded, or null. */
export function refuseFile(name: string, size: number): string | null {
  if (!ACCEPTED.some((ending) => name.toLowerCase().endsWith(ending))) {
    return t('{name} is not a {kinds} file.', { name, kinds: ACCEPTED.join(' or ') });
  }
  return size === 0 ? t('{name} is empty.', { name }) : null;
}
