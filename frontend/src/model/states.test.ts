import { expect, test } from 'vitest';

import type { ExecutionState } from '../gen/contract';
import { stateOfAll } from './states';

test.each<[ExecutionState[], ExecutionState]>([
  [['RUNNING', 'FINISHED'], 'RUNNING'],
  [['FINISHED', 'FINISHED'], 'FINISHED'],
  [['CREATED', 'FINISHED'], 'RUNNING'],
  [['RUNNING', 'FAILED'], 'FAILED'],
  [['CANCELED', 'CANCELING'], 'CANCELING'],
  [['CREATED', 'CREATED'], 'CREATED'],
  [['RUNNING', 'INITIALIZING'], 'INITIALIZING'],
])('parts that are %j are together %s', (states, expected) => {
  expect(stateOfAll(states)).toBe(expected);
});
