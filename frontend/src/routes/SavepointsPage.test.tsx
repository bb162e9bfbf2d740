// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { Savepoint, Savepoints, Session, StateContents } from '../gen/contract';
import { SESSION_KEY } from '../hooks/useSession';
import { SavepointsPage } from './SavepointsPage';

function savepoint(number: number, more: Partial<Savepoint> = {}): Savepoint {
  return {
    location: `file:///savepoints/${number}`,
    job_id: 'a'.repeat(32),
    job_name: 'flights',
    job_state: 'RUNNING',
    created_at: number,
    size: 2048,
    kind: 'savepoint',
    format: 'CANONICAL',
    checkpoint_id: number,
    requested_by: null,
    exists: true,
    used_by: [],
    needed_by: null,
    needed_for: null,
    ...more,
  };
}

const CONTENTS: StateContents = {
  snapshot: null,
  operators: [
    {
      id: 'ab',
      uid: 'by-carrier',
      name: 'By carrier',
      parallelism: 2,
      max_parallelism: 128,
      key_type: 'string',
      key_fields: [],
      window_type: '',
      formats: ['canonical'],
      size: 4096,
      has_timers: true,
      states: [{ name: 'delays', kind: 'list', type: 'long', is_namespaced: true, has_ttl: false, is_pickled: false }],
    },
  ],
};

let listed: Savepoint[] = [];
const asked: URL[] = [];
/** The search waits until nobody types. */
const PATIENT = { timeout: 4_000 };

beforeEach(() => {
  listed = [];
  asked.splice(0);
  vi.stubGlobal('fetch', (address: string) => {
    const url = new URL(address, 'http://host');
    asked.push(url);
    return Promise.resolve(new Response(JSON.stringify(answer(url))));
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function answer(url: URL): Savepoints | StateContents {
  if (url.pathname.endsWith('/state')) return CONTENTS;
  const search = url.searchParams.get('search') ?? '';
  const found = listed.filter(({ location }) => location.includes(search));
  const offset = Number(url.searchParams.get('offset'));
  // few of each page: rows are slow to look through
  return { savepoints: found.slice(offset, offset + 4), total: found.length };
}

function show(address = '/savepoints'): void {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  queries.setQueryData<Partial<Session>>(SESSION_KEY, { user: { name: 'oscar', role: 'operator' }, submission: '' });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queries}>
        <MemoryRouter initialEntries={[address]}>
          <SavepointsPage />
        </MemoryRouter>
      </QueryClientProvider>
    </MantineProvider>,
  );
}

const row = async (location: string) => {
  const cell = await screen.findByText(location);
  return within(cell.closest('tr') as HTMLElement);
};

test('a savepoint names the job or the deployment that needs it', async () => {
  const needed = 'b'.repeat(32);
  listed = [
    savepoint(1, { needed_by: needed, needed_for: 'the deployment of version 3 of pipeline Delays' }),
    savepoint(2, {
      needed_by: needed,
      needed_for: `job ${needed}`,
      used_by: [{ job_id: needed, job_name: 'next', job_state: 'RUNNING', claim_mode: 'CLAIM' }],
    }),
    savepoint(3, {
      used_by: [{ job_id: needed, job_name: 'next', job_state: 'FAILED', claim_mode: 'NO_CLAIM' }],
    }),
    savepoint(4),
  ];
  show();
  const link = (await row('file:///savepoints/1')).getByRole('link', { name: /^The deployment of version 3/ });
  expect(link.getAttribute('href')).toBe(`/jobs/${needed}`);
  const claimed = await row('file:///savepoints/2');
  expect(claimed.getByRole('link', { name: 'next' })).toBeTruthy();
  expect(claimed.getByText(/started from it \(claimed, running\)/)).toBeTruthy();
  const unneeded = await row('file:///savepoints/3');
  expect(unneeded.getByText(/\(failed\), does not need it/)).toBeTruthy();
  expect((await row('file:///savepoints/4')).getByText('Nobody')).toBeTruthy();
});

test('the contents are shown without leaving the page', async () => {
  listed = [savepoint(1), savepoint(2, { exists: false })];
  show();
  const button = (await row('file:///savepoints/1')).getByRole('button', { name: 'Contents' });
  expect((await row('file:///savepoints/2')).queryByRole('button', { name: 'Contents' })).toBeNull();
  expect(button.getAttribute('aria-expanded')).toBe('false');
  fireEvent.click(button);
  const contents = within(await screen.findByRole('table', { name: 'Contents of file:///savepoints/1' }));
  expect(contents.getByRole('link', { name: 'By carrier' })).toBeTruthy();
  expect(contents.getByText('delays').parentElement?.textContent).toBe('delays list, long, for each window');
  expect(contents.getByText('timers')).toBeTruthy();
  expect(contents.getByText(/^4(\.0+)?\sKiB$/)).toBeTruthy();
});

test('savepoints beyond the first page are one step away', async () => {
  listed = Array.from({ length: 120 }, (_, index) => savepoint(index));
  show();
  await screen.findByText('1 to 4 of 120 savepoints', undefined, PATIENT);
  fireEvent.click(screen.getByRole('button', { name: 'Page 3' }));
  await screen.findByText('101 to 104 of 120 savepoints', undefined, PATIENT);
  expect(screen.getByText('file:///savepoints/101')).toBeTruthy();
});

test('a search asks the server and begins with its first page', async () => {
  listed = Array.from({ length: 120 }, (_, index) => savepoint(index));
  show('/savepoints?page=3');
  await screen.findByText('101 to 104 of 120 savepoints', undefined, PATIENT);
  fireEvent.change(screen.getByRole('textbox', { name: 'Search savepoints' }), { target: { value: 'points/77' } });
  await screen.findByText('1 savepoint', undefined, PATIENT);
  const last = asked.at(-1)?.searchParams;
  expect([last?.get('search'), last?.get('offset')]).toEqual(['points/77', '0']);
  fireEvent.change(screen.getByRole('textbox', { name: 'Search savepoints' }), { target: { value: 'nothing' } });
  await waitFor(() => expect(screen.getByText('No savepoint is found')).toBeTruthy());
});
