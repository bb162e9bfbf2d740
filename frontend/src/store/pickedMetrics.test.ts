import { expect, test } from 'vitest';

import type { MetricHistory } from '../gen/contract';
import { pickedSeries, withKept } from './pickedMetrics';

const sample = (time: number, value: number) => ({ time, least: value, average: value, greatest: value });
const kept = (series: MetricHistory['series']): MetricHistory => ({
  is_available: true,
  begin: 0,
  end: 100,
  step: 5_000,
  times: [10, 20, 30],
  series,
  events: [],
});

test('what the server has kept comes before what the page has seen', () => {
  expect(pickedSeries('v', ['a.b'])).toBe('p.v.a.b.least,p.v.a.b.average,p.v.a.b.greatest');
  const told = kept({ 'p.v.m.least': [1, 2, 3], 'p.v.m.average': [1, 2, 3], 'p.v.m.greatest': [1, 2, 3] });
  expect(withKept(told, 'v', 'm', [sample(25, 9)])).toEqual([sample(10, 1), sample(20, 2), sample(25, 9)]);
  expect(withKept(told, 'v', 'm', [])).toHaveLength(3);
});

test('times at which nobody knew it, and a metric that was not kept, are left out', () => {
  const told = kept({ 'p.v.m.least': [null, 2, 3], 'p.v.m.average': [1, 2, 3], 'p.v.m.greatest': [1, 2] });
  expect(withKept(told, 'v', 'm', [])).toEqual([sample(20, 2)]);
  expect(withKept(told, 'v', 'other', [sample(5, 1)])).toEqual([sample(5, 1)]);
  expect(withKept(undefined, 'v', 'm', [])).toEqual([]);
});
