import { expect, test } from 'vitest';

import type { StateValue } from '../gen/contract';
import { exampleOf, inputOf, itemsOf, keyOf, lineOf, nameOf, textOf, windowOf } from './stateBrowser';

const one = (type: string) => [{ name: '', type }];
const found = (value: unknown, more: Partial<StateValue> = {}): StateValue => ({
  namespace: null,
  value,
  touched: null,
  is_decoded: true,
  num_items: null,
  is_cut: false,
  ...more,
});

test('a key is typed by its type', () => {
  expect(['string', 'long', 'double', 'boolean', 'sql_date', 'list<long>'].map(inputOf)).toEqual([
    'text',
    'number',
    'number',
    'boolean',
    'text',
    'json',
  ]);
  expect([exampleOf('string'), exampleOf('sql_date'), exampleOf('list<long>')]).toEqual(['', '2026-01-31', 'JSON']);
});

test('numbers of a key stay texts, as a script cannot hold all of them', () => {
  expect(keyOf(one('long'), [' 9007199254740993 '])).toEqual({ key: '9007199254740993' });
  expect(keyOf(one('double'), ['0.5'])).toEqual({ key: '0.5' });
  expect(keyOf(one('long'), ['1.5'])).toEqual({ problems: ['Must be a whole number'] });
  expect(keyOf(one('double'), [''])).toEqual({ problems: ['Must be a number'] });
});

test('a key of several fields is a list, and each field has its own problem', () => {
  const fields = [
    { name: 'city', type: 'string' },
    { name: 'n', type: 'long' },
    { name: 'is_new', type: 'boolean' },
    { name: 'tags', type: 'list<string>' },
  ];
  expect(keyOf(fields, ['Ulm', '7', 'true', '["a"]'])).toEqual({ key: ['Ulm', '7', true, ['a']] });
  expect(keyOf(fields, ['', 'x', '', '['])).toEqual({
    problems: [null, 'Must be a whole number', null, 'Must be JSON'],
  });
  expect(keyOf([{ name: '0', type: 'string' }], ['a'])).toEqual({ key: ['a'] });
});

test('keys and values are shown as texts', () => {
  expect([lineOf('a'), lineOf(7), lineOf(['a', 7, null]), lineOf({ a: 1 })]).toEqual([
    'a',
    '7',
    '(a, 7, null)',
    '{"a":1}',
  ]);
  expect([textOf('a'), textOf(true), textOf(null), textOf({ a: 1 })]).toEqual(['a', 'true', 'null', '{\n  "a": 1\n}']);
  expect(nameOf({ kind: 'checkpoint', checkpoint_id: 812, timestamp: 0, location: '' })).toBe('checkpoint 812');
});

test('a namespace is a window only where windows are of time', () => {
  expect(windowOf('TimeWindow of event time', [0, 10])).toEqual([0, 10]);
  expect(windowOf('CountWindow', [0, 10])).toBeNull();
  expect(windowOf('TimeWindow of event time', 'a')).toBeNull();
});

test('lists and maps have items, other values none', () => {
  const entries = [{ key: ['a', 1], value: 2 }];
  expect(itemsOf('map', found(entries, { touched: [5] }))).toEqual([{ name: '(a, 1)', value: 2, touched: 5 }]);
  expect(itemsOf('list', found(['x', 'y']))).toEqual([
    { name: '0', value: 'x', touched: null },
    { name: '1', value: 'y', touched: null },
  ]);
  expect(itemsOf('value', found(['x', 'y']))).toBeNull();
  expect(itemsOf('map', found(null, { is_decoded: false }))).toBeNull();
});
