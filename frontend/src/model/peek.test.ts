import { expect, test } from 'vitest';

import type { SeenElement } from '../gen/contract';
import { MAX_SHOWN, latenessOf, peekableEdges, valueText, withNewer } from './peek';
import { vertex } from './testData';

function seen(number: number, more: Partial<SeenElement> = {}): SeenElement {
  return {
    number,
    kind: 'row',
    subtask: 0,
    passed_at: 0,
    timestamp: null,
    watermark: null,
    value: number,
    text: '',
    row_kind: '',
    is_cut: false,
    ...more,
  };
}

test('the edges of a vertex are those that lead to it, those in its chain and those that leave it', () => {
  const chained = {
    parallelism: 3,
    operators: [
      { id: 'p', name: 'parse', uid: 'p' },
      { id: 'f', name: 'filter', uid: 'f', input: { operator: 'p', side_output: '' } },
      { id: 'l', name: 'late', uid: 'l', input: { operator: 'p', side_output: 'late' } },
    ],
  };
  const vertices = [vertex('source'), vertex('map', ['source'], chained), vertex('sink', ['map'])];
  const edges = peekableEdges(vertices, 'map');
  expect(edges.map(({ key }) => key)).toEqual(['source-map', 'into:f', 'into:l', 'map-sink']);
  expect(edges.map(({ label }) => label)).toEqual([
    'source → map',
    'parse → filter',
    'parse → late · late',
    'map → sink',
  ]);
  expect(edges.map(({ wanted }) => wanted)).toEqual([
    { edge: 'source-map' },
    { operator: 'f' },
    { operator: 'l' },
    { edge: 'map-sink' },
  ]);
  // of the vertex that writes
  expect(edges.map(({ parallelism }) => parallelism)).toEqual([1, 3, 3, 3]);
});

test('operators that have dropped late records stand behind the edges', () => {
  const vertices = [vertex('map', [], { operators: [{ id: 'w', name: 'windows', uid: 'w' }], parallelism: 2 })];
  expect(peekableEdges(vertices, 'map')).toEqual([]);
  expect(peekableEdges(vertices, 'map', { w: 3, other: 1 })).toEqual([
    { key: 'late:w', label: 'Late records dropped by windows', wanted: { late: 'w' }, parallelism: 2 },
  ]);
});

test('a record is late by the distance to the watermark that had passed it', () => {
  expect(latenessOf({ timestamp: 5_000, watermark: 9_000 })).toBe(4_000);
  expect(latenessOf({ timestamp: null, watermark: 9_000 })).toBeNull();
  expect(latenessOf({ timestamp: 5_000, watermark: 'max' })).toBeNull();
});

test('what was shown already is not shown again, and old rows make room', () => {
  const first = withNewer([], [seen(1), seen(2)]);
  const next = withNewer(first, [seen(2), seen(3)]);
  expect(next.map(({ number }) => number)).toEqual([1, 2, 3]);
  const many = withNewer(
    next,
    Array.from({ length: 2 * MAX_SHOWN }, (_, index) => seen(10 + index)),
  );
  expect(many).toHaveLength(MAX_SHOWN);
  expect(many.at(-1)?.number).toBe(9 + 2 * MAX_SHOWN);
});

test('a row is late behind a watermark of its own subtask that has passed its time', () => {
  const first = withNewer(
    [],
    [seen(1, { timestamp: 5 }), seen(2, { kind: 'watermark', timestamp: 10 }), seen(3, { timestamp: 10 })],
  );
  const next = withNewer(first, [
    seen(4, { timestamp: 11 }),
    seen(5, { timestamp: 5, subtask: 1 }),
    seen(6, { timestamp: 5 }),
    seen(7),
    seen(8, { kind: 'watermark', timestamp: 'max' }),
    seen(9, { timestamp: 99 }),
  ]);
  expect(next.filter(({ isLate }) => isLate).map(({ number }) => number)).toEqual([3, 6, 9]);
});

test('values are on one line', () => {
  expect(valueText({ a: [1, null] })).toBe('{"a":[1,null]}');
  expect(valueText('a\nb')).toBe('"a\\nb"');
});

test('a text looks like no number and like no mark, and turns nothing round', () => {
  expect(valueText('5')).toBe('"5"');
  expect(valueText('Watermark')).toBe('"Watermark"');
  expect(valueText('\u001b[31m\u202eabc\u200b\u0085')).toBe('"\\u001b[31m\\u202eabc\\u200b\\u0085"');
  expect(valueText('می\u200cخواهم 👨\u200d👩')).toBe('"می\u200cخواهم 👨\u200d👩"');
});

test('elements of a leader whose clock is behind are shown, too', () => {
  const first = withNewer([], [seen(500), seen(501)]);
  const next = withNewer(withNewer(first, [seen(400), seen(401)]), [seen(402)]);
  expect(next.map(({ number }) => number)).toEqual([500, 501, 400, 401, 402]);
  expect(next.map(({ id }) => id)).toEqual([1, 2, 3, 4, 5]);
});
