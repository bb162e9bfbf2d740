import { expect, test } from 'vitest';

import type { TestResult } from '../../gen/contract';
import * as operations from './operations';
import { editText, emptyRow, gridColumns, parseCell, parseTime, timeText, withCell } from './rowGrid';
import { withSample } from './samples';
import { factsBefore, factWords } from './streams';
import { line } from './testPipelines';
import {
  expectKey,
  givenRows,
  isCurrent,
  placeOfKey,
  rowsThatCame,
  testOf,
  testsOf,
  verdictOf,
  withTest,
  withoutTest,
} from './tests';

const TEST = { name: 'late', given: { n1: [] }, expect: { n2: [{ a: 1 }] } };

function result(more: Partial<TestResult> = {}): TestResult {
  return { name: 'late', passed: false, message: '', node: null, places: [], output: '', ...more };
}

test('tests are added under free names, replaced by name, and deleted', () => {
  const one = withTest(line(), null, TEST);
  const two = withTest(one, null, TEST);
  expect(testsOf(two).map(({ name }) => name)).toEqual(['late', 'late 2']);
  const renamed = withTest(two, 'late', { ...TEST, name: 'late 2' });
  expect(testsOf(renamed).map(({ name }) => name)).toEqual(['late 3', 'late 2']);
  expect(testsOf(withTest(one, 'late', { ...TEST, name: ' ' }))[0]?.name).toBe('Test');
  expect(testsOf(withoutTest(two, 'late')).map(({ name }) => name)).toEqual(['late 2']);
  expect(testOf(two, 'gone')).toBeUndefined();
});

test('documents hold given rows and watermarks as pairs', () => {
  const items = [{ row: { a: 1 }, time: 5 }, { watermark: 7 }, { row: { a: 2 } }];
  const document = withTest(line(), null, { ...TEST, given: { n1: items } });
  const pairs = [
    [{ a: 1 }, 5],
    ['watermark', 7],
    [{ a: 2 }, null],
  ];
  expect(document.tests).toEqual([{ name: 'late', given: { n1: pairs }, expect: TEST.expect }]);
  expect(testOf(document, 'late')?.given.n1).toEqual(items);
});

test('places have short keys for first ports', () => {
  const document = line();
  expect([expectKey(['n2', 'out']), expectKey(['n3', 'in']), expectKey(['n2', 'late'])]).toEqual([
    'n2',
    'n3',
    'n2/late',
  ]);
  expect(placeOfKey(document, 'n2', false)).toEqual(['n2', 'out']);
  expect(placeOfKey(document, 'n3', true)).toEqual(['n3', 'in']);
  expect(placeOfKey(document, 'n2/late', false)).toEqual(['n2', 'late']);
});

test('a test from a preview gives pinned rows, else the first that were shown', () => {
  const shown = Array.from({ length: 80 }, (_, index) => ({ row: { a: index } }));
  expect(givenRows(line(), ['n1'], () => shown).n1).toEqual(shown.slice(0, 50));
  const pinned = withSample(line(), 'n1', { rows: [{ row: { a: 'pinned' } }], pinned: true });
  expect(givenRows(pinned, ['n1'], () => shown).n1).toEqual([{ row: { a: 'pinned' } }]);
});

test('a result is of the present draft until the job or the test changes', () => {
  const before = withTest(line(), null, TEST);
  expect(isCurrent(before, operations.moveNodes(before, { n1: [5, 5] }), 'late')).toBe(true);
  expect(isCurrent(before, withTest(before, null, { ...TEST, name: 'other' }), 'late')).toBe(true);
  expect(isCurrent(before, operations.setParam(before, 'n2', 'text', 'x'), 'late')).toBe(false);
  expect(isCurrent(before, withTest(before, 'late', { ...TEST, expect: {} }), 'late')).toBe(false);
});

test('a verdict says what is missing and what nobody expected', () => {
  const rows = [
    { state: 'same' as const, row: { a: 1 } },
    { state: 'missing' as const, row: { a: 2 } },
    { state: 'unexpected' as const, row: { a: 3 } },
  ];
  const failed = result({ places: [{ node: 'n2', port: 'out', rows }] });
  expect(verdictOf(failed)).toBe('1 missing, 1 unexpected');
  expect(verdictOf(result({ passed: true }))).toBe('Passed');
  expect(verdictOf(result({ message: 'cannot run' }))).toBe('cannot run');
  expect(rowsThatCame(failed, ['n2', 'out'])).toEqual([{ a: 1 }, { a: 3 }]);
  expect(rowsThatCame(failed, ['n3', 'in'])).toEqual([]);
});

test('cells are read by the type of their column, and written so that they are read as the same', () => {
  expect([parseCell('12', 'long'), parseCell('1.5', 'double'), parseCell('true', 'boolean')]).toEqual([12, 1.5, true]);
  expect([parseCell('', 'string'), parseCell('""', 'string'), parseCell('007', 'string')]).toEqual([null, '', '007']);
  expect(parseCell('twelve', 'long')).toBe('twelve');
  expect(parseCell('9007199254740993', 'long')).toBe('9007199254740993');
  expect(parseCell('[1, 2]', 'list<long>')).toEqual([1, 2]);
  expect(parseCell('2026-01-31 12:00:00', 'sql_timestamp')).toBe('2026-01-31 12:00:00');
  const values = [
    [null, 'string'],
    ['', 'string'],
    ['"quoted"', 'string'],
    ['12', 'string'],
    [12, 'long'],
    [-0.5, 'double'],
    [false, 'boolean'],
    [{ a: [1] }, 'row<a list<long>>'],
    ['12', ''],
  ] as const;
  for (const [value, type] of values) expect(parseCell(editText(value, type), type)).toEqual(value);
});

test('times are ms or a moment in UTC', () => {
  expect([parseTime('1000'), parseTime('soon'), parseTime('')]).toEqual([1000, null, null]);
  expect(parseTime('2026-01-31 12:00:00.250')).toBe(Date.UTC(2026, 0, 31, 12, 0, 0, 250));
  for (const ms of [0, 1000, Date.UTC(2026, 0, 31, 12, 0, 0, 250)]) expect(parseTime(timeText(ms))).toBe(ms);
  expect(timeText(null)).toBe('');
});

test('a grid has the known columns, and what else its rows hold', () => {
  const columns = gridColumns([{ name: 'a', type: 'long' }], [{ b: 1, a: 2, $kind: 'DELETE' }, 7]);
  expect(columns.map(({ name }) => name)).toEqual(['a', 'b']);
  expect(emptyRow(columns)).toEqual({ a: null, b: null });
  expect([withCell({ a: 1 }, 'a', 2), withCell(7, 'value', 8)]).toEqual([{ a: 2 }, 8]);
});

test('what enters a node is the columns of all its inputs', () => {
  const facts = (...names: string[]) => ({
    columns: names.map((name) => ({ name, type: 'long' })),
    changelog: 'append' as const,
    unique_key: names.slice(0, 1),
    event_time: true,
    watermarks: false,
    time_column: null,
    bounded: true,
  });
  const state = (...names: string[]) => ({
    ports: { inputs: [], outputs: [] },
    outputs: { out: facts(...names) },
    is_active: true,
    label: '',
  });
  const validation = {
    tag: null,
    problems: [],
    is_deployable: true,
    nodes: { n1: state('a', 'b'), n2: state('b', 'c') },
  };
  const document = { ...line(), edges: { ...line().edges, e3: { from: ['n1', 'out'], to: ['n3', 'other'] } as const } };
  expect(factsBefore(document, validation, 'n3')?.map(({ name }) => name)).toEqual(['b', 'c', 'a']);
  expect(factsBefore(document, validation, 'n1')).toBeNull();
  expect(factsBefore(document, { ...validation, nodes: {} }, 'n3')).toBeNull();
  expect(factWords(facts('a', 'b'))).toEqual([
    'new rows only',
    'event time, no watermarks',
    'ends',
    'one row for each a',
  ]);
});
