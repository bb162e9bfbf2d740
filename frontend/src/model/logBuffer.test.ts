import { expect, test } from 'vitest';

import type { LogText } from '../gen/contract';
import { MAX_LINES, append, indexOfLine, levelOf, prepend, startWith } from './logBuffer';

const part = (offset: number, text: string, size?: number, firstLine = 1): LogText => {
  const next = offset + new TextEncoder().encode(text).length;
  const lines = firstLine - 1 + text.split('\n').length - (text.endsWith('\n') || text === '' ? 1 : 0);
  return { name: 'f', offset, next_offset: next, begin: 0, size: size ?? next, text, first_line: firstLine, lines };
};

test('a read from the start holds whole lines and an open last one', () => {
  const held = { lines: ['a', 'b', 'c'], start: 0, end: 5, begin: 0, size: 5, firstLine: 1, lineCount: 3, open: true };
  expect(startWith(part(0, 'a\nb\nc'))).toEqual(held);
});

test('a read from the end begins with a line; offsets count bytes', () => {
  expect(startWith(part(10, 'ät\nnext\n'))).toMatchObject({ lines: ['ät', 'next'], start: 10, end: 19, open: false });
});

test('what follows continues the open line', () => {
  const buffer = append(startWith(part(0, 'a\nb')), part(3, 'c\nd\n'));
  expect(buffer).toMatchObject({ lines: ['a', 'bc', 'd'], end: 7, open: false });
  expect(append(buffer, part(7, '')).lines).toBe(buffer.lines);
});

test('earlier text goes in front, without the line it begins within', () => {
  const buffer = startWith(part(9, 'c\n'));
  expect(prepend(buffer, part(2, 'x\nb\n...\n'))).toMatchObject({ lines: ['b', '...', 'c'], start: 4, end: 11 });
  expect(prepend(buffer, part(0, 'whole\n'))).toMatchObject({ lines: ['whole', 'c'], start: 0 });
});

test('a file that shrank starts anew', () => {
  const buffer = startWith(part(0, 'old old old\n'));
  expect(append(buffer, part(0, 'new', 3))).toMatchObject({ lines: [], start: 0, end: 0 });
});

test('a log whose oldest bytes are deleted has its first whole line where it begins', () => {
  const buffer = startWith({ ...part(109, 'c\n'), begin: 100 });
  const earlier = { ...part(100, 'x\nb\n...\n'), begin: 100 };
  expect(prepend(buffer, earlier)).toMatchObject({ lines: ['x', 'b', '...', 'c'], start: 100, begin: 100 });
});

test('a reader that is overtaken by the deletion of the oldest bytes starts anew with what is kept', () => {
  const buffer = startWith(part(0, 'old\n'));
  const kept = { ...part(100, 'kept\n'), begin: 100 };
  expect(append(buffer, kept)).toMatchObject({ lines: ['kept'], start: 100, end: 105, begin: 100 });
});

test('only the newest lines are held, and the start moves with them', () => {
  const buffer = startWith(part(0, 'x\n'.repeat(MAX_LINES + 5)));
  expect(buffer.lines).toHaveLength(MAX_LINES);
  expect(buffer.start).toBe(10);
});

test('lines keep their numbers in the file, whatever is read in front of them and behind, or dropped', () => {
  const buffer = startWith(part(9, 'c\n', 11, 4));
  expect(prepend(buffer, part(2, 'x\nb\n...\n', 11, 1)).firstLine).toBe(2);
  const more = append(buffer, part(11, 'd\ne\n', 15, 5));
  expect(more).toMatchObject({ firstLine: 4, lineCount: 6 });
  expect([3, 4, 6, 7].map((line) => indexOfLine(more, line))).toEqual([null, 0, 2, null]);
  expect(append(more, part(15, 'x\n'.repeat(MAX_LINES), undefined, 7)).firstLine).toBe(7);
});

test('levels are read from the line', () => {
  expect(levelOf('2026-11-20 ERROR runtime.task boom')).toBe('error');
  expect(levelOf('ValueError: bad')).toBe('error');
  expect(levelOf('WARNING slow')).toBe('warning');
  expect(levelOf('an error-free line')).toBe('plain');
});
