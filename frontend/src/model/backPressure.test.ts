import { expect, test } from 'vitest';

import { backPressureLevel, likelyBottleneck } from './backPressure';
import { metrics, vertex } from './testData';

const waiting = vertex('source', [], { metrics: metrics({ back_pressured: 900, busy: 100, idle: 0 }) });
const slow = vertex('slow', ['source'], { metrics: metrics({ busy: 980, idle: 20 }) });
const sink = vertex('sink', ['slow'], { metrics: metrics({ busy: 30 }) });

test.each([
  [0, 'OK'],
  [100, 'OK'],
  [101, 'LOW'],
  [500, 'LOW'],
  [501, 'HIGH'],
] as const)('%s ms of 1000 are %s', (ms, level) => {
  expect(backPressureLevel(ms)).toBe(level);
});

test('the bottleneck is the busy vertex behind a back-pressured one', () => {
  expect(likelyBottleneck([waiting, slow, sink])?.id).toBe('slow');
});

test('nobody is blamed while nobody waits', () => {
  expect(likelyBottleneck([vertex('source'), slow, sink])).toBeNull();
});
