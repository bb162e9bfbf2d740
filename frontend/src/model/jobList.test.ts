import { expect, test } from 'vitest';

import {
  concerns,
  countStates,
  distanceOf,
  filterJobs,
  parseSorting,
  parseStates,
  sortBy,
  sortingText,
  toggleSorting,
} from './jobList';
import { jobSummary } from './testData';

const jobs = [
  jobSummary('a1', { name: 'job-10', start_time: 3 }),
  jobSummary('b2', { name: 'Job-9', start_time: 1, state: 'FAILED' }),
  jobSummary('c3', { name: 'other', start_time: 2 }),
];

test('every word has to be found in name, id or state', () => {
  expect(filterJobs(jobs, ' JOB failed ').map((job) => job.id)).toEqual(['b2']);
  expect(filterJobs(jobs, 'c3')).toHaveLength(1);
  expect(filterJobs(jobs, '')).toHaveLength(3);
});

test('names sort by their numbers, times by value, and descending turns both', () => {
  const order = (column: 'name' | 'start_time', descending: boolean) =>
    sortBy(jobs, { column, descending }, (job, key) => job[key]).map((job) => job.id);
  expect(order('name', false)).toEqual(['b2', 'a1', 'c3']);
  expect(order('start_time', true)).toEqual(['a1', 'c3', 'b2']);
});

test('a second click turns the direction', () => {
  const first = toggleSorting({ column: 'name', descending: true }, 'state');
  expect(first).toEqual({ column: 'state', descending: false });
  expect(toggleSorting(first, 'state').descending).toBe(true);
});

test('a sorting survives the address, and what names no column is none', () => {
  const columns = ['name', 'start_time'] as const;
  for (const sorting of [
    { column: 'name', descending: false },
    { column: 'start_time', descending: true },
  ] as const) {
    expect(parseSorting(sortingText(sorting), columns)).toEqual(sorting);
  }
  expect(parseSorting(null, columns)).toBeNull();
  expect(parseSorting('-colour', columns)).toBeNull();
});

test('states are counted, those of jobs that have not ended first, and read from the address', () => {
  const states = ['FINISHED', 'RUNNING', 'FAILED', 'RUNNING'] as const;
  const counts = countStates(states.map((state, index) => jobSummary(String(index), { state })));
  expect(counts.map(({ state, count }) => `${count} ${state}`)).toEqual(['2 RUNNING', '1 FAILED', '1 FINISHED']);
  expect(parseStates('FAILED,RUNNING,nonsense')).toEqual(['RUNNING', 'FAILED']);
  expect(parseStates(null)).toEqual([]);
  expect([concerns([], true), concerns(['RUNNING'], true), concerns(['FAILED'], true)]).toEqual([true, false, true]);
});

test('a job is found by what limits it and by its tags, and is as far behind as its live sources say', () => {
  const slow = jobSummary('a', { limit: { cause: 'slow-sink', vertex: 'v', name: 'to Kafka' }, behind: 7, lag: 9_000 });
  expect(filterJobs([...jobs, slow], 'kafka slow').map((job) => job.id)).toEqual(['a']);
  expect(filterJobs(jobs, 'PROD', { b2: ['prod'] }).map((job) => job.id)).toEqual(['b2']);
  expect([slow, jobSummary('b', { behind: 7 }), jobSummary('c')].map(distanceOf)).toEqual([9_000, 7, -1]);
});
