/** A line with all occurrences of a text highlighted. */

interface Props {
  readonly line: string;
  readonly text: string;
}

export function Marked({ line, text }: Props) {
  if (text === '') return line;
  const parts = [];
  const haystack = line.toLowerCase();
  const needle = text.toLowerCase();
  let from = 0;
  for (let at = haystack.indexOf(needle); at >= 0; at = haystack.indexOf(needle, from)) {
    parts.push(line.slice(from, at), <mark key={at}>{line.slice(at, at + text.length)}</mark>);
    from = at + text.length;
  }
  parts.push(line.slice(from));
  return parts;
}
