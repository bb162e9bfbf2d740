/** The difference of two texts by line. Pure. */

export interface DiffLine {
  readonly mark: 'same' | 'added' | 'removed';
  readonly text: string;
  /** Line in the older and in the newer text, from 1; null: not there. */
  readonly before: number | null;
  readonly after: number | null;
}

/** Beyond so many pairs of lines between the first and the last difference, all lines there count as replaced. */
const MAX_PAIRS = 4_000_000;

export function textDiff(before: string, after: string): readonly DiffLine[] {
  const [olds, news] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < olds.length && start < news.length && olds[start] === news[start]) start += 1;
  let end = 0;
  const shortest = Math.min(olds.length, news.length) - start;
  while (end < shortest && olds[olds.length - 1 - end] === news[news.length - 1 - end]) end += 1;
  const pairs = middle(olds.slice(start, olds.length - end), news.slice(start, news.length - end));
  const lines: DiffLine[] = [];
  let [old, fresh] = [0, 0];
  const push = (mark: DiffLine['mark']) => {
    const text = (mark === 'added' ? news[fresh] : olds[old]) ?? '';
    if (mark !== 'added') old += 1;
    if (mark !== 'removed') fresh += 1;
    lines.push({ mark, text, before: mark === 'added' ? null : old, after: mark === 'removed' ? null : fresh });
  };
  for (let index = 0; index < start; index += 1) push('same');
  for (const mark of pairs) push(mark);
  for (let index = 0; index < end; index += 1) push('same');
  return lines;
}

/** A shortest way from one list to the other, by the longest common subsequence. */
function middle(olds: readonly string[], news: readonly string[]): readonly DiffLine['mark'][] {
  const width = news.length + 1;
  if (olds.length * news.length > MAX_PAIRS) {
    return [...olds.map(() => 'removed' as const), ...news.map(() => 'added' as const)];
  }
  const longest = new Uint32Array((olds.length + 1) * width);
  const at = (old: number, fresh: number) => longest[old * width + fresh] ?? 0;
  for (let old = olds.length - 1; old >= 0; old -= 1) {
    for (let fresh = news.length - 1; fresh >= 0; fresh -= 1) {
      longest[old * width + fresh] =
        olds[old] === news[fresh] ? at(old + 1, fresh + 1) + 1 : Math.max(at(old + 1, fresh), at(old, fresh + 1));
    }
  }
  const marks: DiffLine['mark'][] = [];
  let [old, fresh] = [0, 0];
  while (old < olds.length || fresh < news.length) {
    if (old < olds.length && fresh < news.length && olds[old] === news[fresh]) {
      marks.push('same');
      old += 1;
      fresh += 1;
    } else if (fresh >= news.length || (old < olds.length && at(old + 1, fresh) >= at(old, fresh + 1))) {
      marks.push('removed');
      old += 1;
    } else {
      marks.push('added');
      fresh += 1;
    }
  }
  return marks;
}

/** Lines with so many equal ones around each difference; null stands for what is left out. */
export function withContext(lines: readonly DiffLine[], around: number): readonly (DiffLine | null)[] {
  const near = lines.map(() => false);
  lines.forEach(({ mark }, index) => {
    if (mark === 'same') return;
    for (let each = Math.max(0, index - around); each <= Math.min(lines.length - 1, index + around); each += 1) {
      near[each] = true;
    }
  });
  const shown: (DiffLine | null)[] = [];
  lines.forEach((line, index) => {
    if (near[index] === true) shown.push(line);
    else if (shown.length === 0 || shown.at(-1) !== null) shown.push(null);
  });
  return shown;
}
