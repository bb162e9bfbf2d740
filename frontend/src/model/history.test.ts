import { expect, test } from 'vitest';

import { HISTORY_MS, type Sample, niceCeiling, record, statistics } from './history';
import { metrics } from './testData';

test('at most one sample a second is kept', () => {
  const one = record([], metrics({ busy: 1 }), null, 1_000);
  expect(record(one, metrics({ busy: 2 }), null, 1_500)).toBe(one);
  expect(record(one, metrics({ busy: 2 }), 7, 2_000).map((sample) => sample.busy)).toEqual([1, 2]);
});

test('what is older than the window is dropped', () => {
  let history: readonly Sample[] = record([], metrics(), null, 0);
  history = record(history, metrics(), null, HISTORY_MS);
  expect(history).toHaveLength(2);
  expect(record(history, metrics(), null, HISTORY_MS + 1_000)).toHaveLength(2);
});

test('statistics skip gaps', () => {
  expect(statistics([null, 2, 4])).toEqual({ min: 2, average: 3, max: 4 });
  expect(statistics([null])).toBeNull();
});

test.each([
  [0, 1],
  [0.3, 0.5],
  [7, 10],
  [1000, 1000],
  [1001, 2000],
])('an axis for %s ends at %s', (value, top) => {
  expect(niceCeiling(value)).toBeCloseTo(top);
});

test('an axis of bytes is round in its own unit', () => {
  expect([niceCeiling(120 * 1024, 1024), niceCeiling(3 * 1024 * 1024, 1024)]).toEqual([200 * 1024, 5 * 1024 * 1024]);
});
