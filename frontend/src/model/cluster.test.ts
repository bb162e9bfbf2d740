import { expect, test } from 'vitest';

import type { LiveCluster } from '../gen/contract';
import { clusterOf } from './cluster';
import { applyMergePatch } from './mergePatch';

const JOB = {
  name: 'flights',
  state: 'RUNNING',
  start_time: 1_000,
  end_time: -1,
  parallelism: 2,
  tasks: { RUNNING: 3, CREATED: 1 },
  restarts: 0,
  waiting_for: '',
  figures: [1_200, 4_000, null],
} as const;
const LIVE = {
  version: 1,
  now: 9_000,
  slots_total: 4,
  slots_available: 1,
  taskmanagers: {},
  jobs: { old: JOB, done: { ...JOB, state: 'FINISHED', start_time: 5_000, end_time: 7_500 } },
} as unknown as LiveCluster;

test('jobs are listed newest first, with their figures by name', () => {
  const [done, old] = clusterOf(LIVE).jobs;
  expect([done?.id, done?.duration, done?.last_checkpoint]).toEqual(['done', 2_500, null]);
  expect([old?.id, old?.tasks_total, old?.records_in_per_second]).toEqual(['old', 4, 1_200]);
  expect([old?.behind, old?.lag, old?.limit]).toEqual([4_000, null, null]);
});

test('a change of one job leaves the others as they were', () => {
  const next = applyMergePatch(LIVE, { version: 2, jobs: { old: { figures: [900, null, 12] } } }) as LiveCluster;
  const [before, after] = [clusterOf(LIVE), clusterOf(next)];
  expect(after.jobs[0]).toBe(before.jobs[0]);
  expect(after.jobs[1]?.lag).toBe(12);
  expect(clusterOf(next)).toBe(after);
});
