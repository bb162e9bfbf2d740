// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
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

test('a job says how fast it reads, how far it is behind and who limits it, with a link to that', () => {
  const limit = { cause: 'busy', vertex: 'v1', name: 'map' } as const;
  const slow = jobSummary('a1', { records_in_per_second: 1_234, behind: 65_000, limit });
  const live = jobSummary('b2', { behind: 10, lag: 3_000, start_time: -1 });
  const stopped = jobSummary('c3', { state: 'RESTARTING', records_in_per_second: 0, start_time: -2 });
  render(<JobTable jobs={[slow, live, stopped]} caption="Jobs" />, { wrapper: MemoryRouter });
  const cells = screen.getAllByRole('row').map((row) => [...row.querySelectorAll('td')].map((td) => td.textContent));
  expect(cells[1]?.slice(3, 6)).toEqual(['1.23\u202fk/s', '1\u202fm 05\u202fs', 'mapbusy']);
  expect(cells[2]?.slice(3, 6)).toEqual(['0/s', '3\u202fsbehind the clock', '–']);
  expect(cells[3]?.slice(3, 6)).toEqual(['–', '–', '–']);
  expect(screen.getByRole('link', { name: 'map' }).getAttribute('href')).toBe('/jobs/a1?vertex=v1');
});

test('of many jobs only some are shown, and a button shows more', () => {
  const many = Array.from({ length: 25 }, (_, index) => jobSummary(`j${index}`, { start_time: -index }));
  render(
    <MantineProvider>
      <JobTable jobs={many} caption="Jobs" withEnd page={10} />
    </MantineProvider>,
    { wrapper: MemoryRouter },
  );
  expect(names()).toHaveLength(10);
  fireEvent.click(screen.getByRole('button', { name: 'Show 10 more of 15' }));
  fireEvent.click(screen.getByRole('button', { name: 'Show 5 more of 5' }));
  expect(names()).toHaveLength(25);
  expect(screen.queryByRole('button', { name: /more of/ })).toBeNull();
});
