import { expect, test } from 'vitest';

import { backPressureLevel } from './backPressure';

test.each([
  [0, 'OK'],
  [100, 'OK'],
  [101, 'LOW'],
  [500, 'LOW'],
  [501, 'HIGH'],
] as const)('%s ms of 1000 are %s', (ms, level) => {
  expect(backPressureLevel(ms)).toBe(level);
});
