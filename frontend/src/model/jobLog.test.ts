import { expect, test } from 'vitest';

import type { JobLog, JobLogEntry } from '../gen/contract';
import { MAX_ENTRIES, queryOf, rowsOf, severityOf, startWith, withEarlier, withLater } from './jobLog';

const entry = (text: string, time: number | null = 1_000): JobLogEntry => ({
  time,
  level: 'INFO',
  attempt: 0,
  slot: 0,
  kind: 'log',
  vertex: '',
  subtask: null,
  operator: '',
  name: 'attempt-0/slot-0.log',
  offset: 0,
  text,
  is_cut: false,
});

const part = (texts: string[], overrides: Partial<JobLog> = {}): JobLog => ({
  entries: texts.map((text) => entry(text)),
  cursor: 'older',
  follow: 'follow',
  is_complete: false,
  searched_to: 500,
  left: 7,
  size: 10,
  logs: 2,
  left_out: 0,
  ...overrides,
});

const texts = ({ entries }: { readonly entries: readonly JobLogEntry[] }) => entries.map(({ text }) => text);

test('what is found further back goes in front, what is written later to the end', () => {
  let held = startWith(part(['d', 'c']));
  held = withEarlier(held, part(['b', 'a'], { cursor: null, left: 0, searched_to: null }));
  held = withLater(held, part(['e', 'f'], { cursor: 'later' }));
  expect(texts(held)).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
  expect(held).toMatchObject({ earlier: null, later: 'later', left: 0, searchedTo: null, isCut: false });
});

test('what comes late stands where its time is, and what has no time stays behind the entry before it', () => {
  const held = startWith({ ...part([]), entries: [entry('e', 5), entry('d', null), entry('c', 3), entry('a', 1)] });
  const late = { ...part([]), entries: [entry('b', 2), entry('b2', null), entry('d2', 4), entry('f', 6)] };
  expect(texts(withLater(held, late))).toEqual(['a', 'b', 'b2', 'c', 'd', 'd2', 'e', 'f']);
});

test('a page that follows for days drops its oldest entries and does not offer to go on before a gap', () => {
  let held = startWith(part(['old']));
  held = withLater(held, part(Array.from({ length: MAX_ENTRIES }, (_, index) => `${index}`)));
  expect(held.entries).toHaveLength(MAX_ENTRIES);
  expect(held).toMatchObject({ earlier: null, isCut: true });
  expect(texts(held)[0]).toBe('0');
});

test('a follower is behind until an answer has all that was written', () => {
  let held = startWith(part(['a']));
  expect(held.isBehind).toBe(false);
  held = withLater(held, part(['b']));
  expect(held.isBehind).toBe(true);
  expect(withLater(held, part([], { is_complete: true })).isBehind).toBe(false);
  expect(withLater(held, part(['c'], { is_complete: true })).isBehind).toBe(false);
});

test('an answer without entries keeps the list, so that nothing is drawn anew', () => {
  const held = startWith(part(['a']));
  expect(withLater(held, part([], { cursor: 'later' })).entries).toBe(held.entries);
});

test('values in an address that make no sense are not asked for', () => {
  const nothing = {
    ...{ q: null, level: null, attempt: null, slot: null },
    ...{ vertex: null, operator: null, kind: null, from: null },
  };
  expect(queryOf(nothing)).toEqual({});
  const senseless = {
    q: '',
    level: 'LOUD',
    attempt: '-1',
    slot: 'x',
    vertex: '',
    operator: '',
    kind: 'err',
    from: '1e9',
  };
  expect(queryOf(senseless)).toEqual({});
  const chosen = {
    q: 'a',
    level: 'WARN',
    attempt: '3',
    slot: '0',
    vertex: 'v',
    operator: 'o',
    kind: 'log',
    from: '12',
  };
  expect(queryOf(chosen)).toEqual({
    q: 'a',
    level: 'WARN',
    attempt: 3,
    slot: 0,
    vertex: 'v',
    operator: 'o',
    kind: 'log',
    from: 12,
  });
});

test('each line of an entry is a row, and has the level of its entry', () => {
  expect(rowsOf([entry('a\nTraceback'), entry('b')]).map(({ text, isFirst }) => [text, isFirst])).toEqual([
    ['a', true],
    ['Traceback', false],
    ['b', true],
  ]);
  expect(['', 'INFO', 'WARN', 'ERROR', 'FATAL'].map((level) => severityOf(level as JobLogEntry['level']))).toEqual([
    'plain',
    'plain',
    'warning',
    'error',
    'error',
  ]);
});
