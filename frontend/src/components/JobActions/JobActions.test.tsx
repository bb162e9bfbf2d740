// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { ClusterDocument, JobState, Role, Session } from '../../gen/contract';
import { JobProvider, useJob } from '../../hooks/useJob';
import { LiveContext } from '../../hooks/useLive';
import { SESSION_KEY } from '../../hooks/useSession';
import { liveJob } from '../../model/testData';
import { LiveConnection } from '../../store/liveConnection';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { VertexTable } from '../VertexTable/VertexTable';
import { JobActions } from './JobActions';

const asked: string[] = [];

beforeEach(() => {
  asked.splice(0);
  vi.stubGlobal('fetch', (url: string, { method = 'GET' }: RequestInit = {}) => {
    asked.push(`${method} ${url}`);
    return Promise.resolve(new Response('{}', { status: 202 }));
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function Shown() {
  return (
    <>
      <JobActions job={useJob()} />
      <VertexTable selected={null} onSelect={() => undefined} />
    </>
  );
}

/** A cluster with so many free slots. */
function cluster(free: number): ClusterDocument {
  const freshness = { age_ms: 0, source: 'live', is_stale: false, reason: '' } as const;
  return { version: 1, now: 0, slots_total: 4, slots_available: free, taskmanagers: [], jobs: [], freshness };
}

function show(state: JobState, role: Role = 'operator', free = 0): void {
  const job = liveJob({ map: [], sink: ['map'] });
  job.moving.job.state = state;
  const socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  const topic = `job:${job.static.id}` as const;
  connection.subscribe(topic, () => undefined);
  socket.says({ type: 'snapshot', topic, version: 1, data: job });
  connection.subscribe('cluster', () => undefined);
  socket.says({ type: 'snapshot', topic: 'cluster', version: 1, data: cluster(free) });
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: Infinity } } });
  queries.setQueryData<Partial<Session>>(SESSION_KEY, { user: { name: 'oscar', role }, submission: '' });
  render(
    <MantineProvider env="test">
      <Notifications />
      <QueryClientProvider client={queries}>
        <MemoryRouter>
          <LiveContext value={connection}>
            <JobProvider value={job.static.id}>
              <Shown />
            </JobProvider>
          </LiveContext>
        </MemoryRouter>
      </QueryClientProvider>
    </MantineProvider>,
  );
}

const changes = () => asked.filter((each) => !each.startsWith('GET'));
const button = (name: string) => screen.getByRole<HTMLButtonElement>('button', { name });
const item = (name: string) => screen.findByRole<HTMLButtonElement>('menuitem', { name });

test('Stop with savepoint is the first button, and a job is cancelled from the menu', async () => {
  show('RUNNING');
  const [first, second] = screen.getAllByRole('button');
  expect([first?.textContent, second?.textContent]).toEqual(['Stop with savepoint', 'Actions']);
  expect(button('Stop with savepoint').dataset.variant).not.toBe(button('Actions').dataset.variant);
  fireEvent.click(button('Actions'));
  fireEvent.click(await item('Cancel job'));
  await screen.findByRole('dialog', { name: 'Cancel this job?' });
  expect(changes()).toEqual([]);
  fireEvent.click(button('Cancel job'));
  await waitFor(() => expect(changes()).toEqual([expect.stringMatching(/^PATCH .*mode=cancel$/)]));
});

test('a job that is not running yet can be cancelled, and nothing else', async () => {
  show('CREATED');
  expect(button('Stop with savepoint').disabled).toBe(true);
  fireEvent.click(button('Actions'));
  expect((await item('Cancel job')).disabled).toBe(false);
  for (const name of ['Take a savepoint', 'Take a checkpoint now', 'Rescale']) {
    expect((await item(name)).disabled).toBe(true);
  }
});

test('a job that is being cancelled is not cancelled again', async () => {
  show('CANCELLING');
  fireEvent.click(button('Actions'));
  expect((await item('Cancelling')).disabled).toBe(true);
});

test('a viewer stops and cancels nothing', () => {
  show('RUNNING', 'viewer');
  expect(button('Stop with savepoint').disabled).toBe(true);
  expect(button('Actions').disabled).toBe(true);
});

test('a vertex of the table is rescaled by one, once the slots that it needs have been seen', async () => {
  show('RUNNING', 'operator', 1);
  expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Fewer subtasks of map' }).disabled).toBe(true);
  fireEvent.click(button('More subtasks of map'));
  const dialog = within(await screen.findByRole('dialog', { name: 'Rescale this job' }));
  expect(dialog.getByRole<HTMLInputElement>('textbox', { name: 'Parallelism of map' }).value).toBe('2');
  expect(dialog.getByRole<HTMLInputElement>('textbox', { name: 'Parallelism of sink' }).value).toBe('1');
  expect(dialog.getByText('Needs 2 slots: the job has 1, and 1 is free.')).toBeTruthy();
  fireEvent.change(dialog.getByRole('textbox', { name: 'Parallelism of map' }), { target: { value: '4' } });
  expect(dialog.getByText(/Needs 4 slots: .* so 2 are missing\./)).toBeTruthy();
  expect(changes()).toEqual([]);
  fireEvent.click(dialog.getByRole('button', { name: 'Rescale' }));
  await waitFor(() => expect(asked).toContainEqual(expect.stringMatching(/^PUT .*resource-requirements$/)));
});

test('nobody rescales a vertex of a job that does not run, and no viewer does', () => {
  show('CREATED');
  expect(screen.queryByRole('button', { name: /subtasks of map/ })).toBeNull();
  cleanup();
  show('RUNNING', 'viewer');
  expect(screen.queryByRole('button', { name: /subtasks of map/ })).toBeNull();
});
