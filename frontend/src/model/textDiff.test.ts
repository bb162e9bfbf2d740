import { expect, test } from 'vitest';

import { type DiffLine, textDiff, withContext } from './textDiff';

const signs = { same: ' ', added: '+', removed: '-' };
const shown = (lines: readonly (DiffLine | null)[]) =>
  lines.map((line) => (line === null ? '…' : signs[line.mark] + line.text));

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
}

test('lines between equal ones are replaced', () => {
  expect(shown(textDiff('a\nb\nc', 'a\nx\nc'))).toEqual([' a', '-b', '+x', ' c']);
  expect(textDiff('a\nb', 'a\nb').every(({ mark }) => mark === 'same')).toBe(true);
});

test('both texts can be read out of every difference, and numbers are theirs', () => {
  const random = seeded(7);
  for (let round = 0; round < 200; round += 1) {
    const text = () => Array.from({ length: Math.floor(random() * 12) }, () => 'abc'[Math.floor(random() * 3)]);
    const [before, after] = [text(), text()].map((lines) => lines.join('\n'));
    const lines = textDiff(before ?? '', after ?? '');
    const olds = lines.filter((line) => line.before !== null);
    const news = lines.filter((line) => line.after !== null);
    expect(olds.map((line) => line.text).join('\n')).toBe(before);
    expect(news.map((line) => line.text).join('\n')).toBe(after);
    expect(olds.map((line) => line.before)).toEqual(olds.map((_, index) => index + 1));
    expect(news.map((line) => line.after)).toEqual(news.map((_, index) => index + 1));
  }
});

test('equal lines far from a difference are left out', () => {
  const before = ['1', '2', '3', '4', '5', '6', '7'];
  const lines = textDiff(before.join('\n'), before.map((line) => (line === '4' ? 'x' : line)).join('\n'));
  expect(shown(withContext(lines, 1))).toEqual(['…', ' 3', '-4', '+x', ' 5', '…']);
});
