import { expect, test } from 'vitest';

import { filterJobs, parseSorting, sortBy, sortingText, toggleSorting } from './jobList';
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
