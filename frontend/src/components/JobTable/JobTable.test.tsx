// @vitest-environment happy-dom
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, test } from 'vitest';

import { jobSummary } from '../../model/testData';
import { JobTable } from './JobTable';

afterEach(cleanup);

const jobs = [
  jobSummary('a1', { name: 'late', start_time: 2_000, tasks: { RUNNING: 3, FAILED: 1 }, tasks_total: 4 }),
  jobSummary('b2', { name: 'early', start_time: 1_000, state: 'CREATED', waiting_for: 'needs 4 slots, 2 are free' }),
];

function names(): (string | null)[] {
  return screen.getAllByRole('link').map((link) => link.textContent);
}

test('the newest job comes first, and a click on a column sorts by it', () => {
  render(<JobTable jobs={jobs} caption="Jobs" />, { wrapper: MemoryRouter });
  expect(names()).toEqual(['late', 'early']);
  expect(screen.getByRole('columnheader', { name: 'Start Time' }).getAttribute('aria-sort')).toBe('descending');
  fireEvent.click(screen.getByRole('button', { name: 'Job Name' }));
  expect(names()).toEqual(['early', 'late']);
  expect(screen.getByRole('columnheader', { name: 'Job Name' }).getAttribute('aria-sort')).toBe('ascending');
});

test('a job links to its page, says what it waits for, and counts its tasks in words', () => {
  render(<JobTable jobs={jobs} caption="Jobs" />, { wrapper: MemoryRouter });
  expect(screen.getByRole('link', { name: 'late' }).getAttribute('href')).toBe('/jobs/a1');
  expect(screen.getByText('Waiting: needs 4 slots, 2 are free')).toBeTruthy();
  const texts = screen.getAllByRole('row').map((row) => row.textContent);
  expect(texts[1]).toContain('3RUNNING1FAILED');
});

test('the sorting is in the address: a reload keeps it', () => {
  render(
    <MemoryRouter initialEntries={['/?sort=name']}>
      <JobTable jobs={jobs} caption="Jobs" />
    </MemoryRouter>,
  );
  expect(names()).toEqual(['early', 'late']);
});
