// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { JobState, Role, Session } from '../../gen/contract';
import { JobProvider, useJob } from '../../hooks/useJob';
import { LiveContext } from '../../hooks/useLive';
import { SESSION_KEY } from '../../hooks/useSession';
import { liveJob } from '../../model/testData';
import { LiveConnection } from '../../store/liveConnection';
import { ScriptedSocket } from '../../store/scriptedSocket';
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
  return <JobActions job={useJob()} />;
}

function show(state: JobState, role: Role = 'operator'): void {
  const job = liveJob({ map: [] });
  job.moving.job.state = state;
  const socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  const topic = `job:${job.static.id}` as const;
  connection.subscribe(topic, () => undefined);
  socket.says({ type: 'snapshot', topic, version: 1, data: job });
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

const button = (name: string) => screen.getByRole<HTMLButtonElement>('button', { name });
const item = (name: string) => screen.findByRole<HTMLButtonElement>('menuitem', { name });

test('Stop with savepoint is the first button, and a job is cancelled from the menu', async () => {
  show('RUNNING');
  expect(screen.getAllByRole('button').map(({ textContent }) => textContent)).toEqual([
    'Stop with savepoint',
    'Actions',
  ]);
  expect(button('Stop with savepoint').dataset.variant).not.toBe(button('Actions').dataset.variant);
  fireEvent.click(button('Actions'));
  fireEvent.click(await item('Cancel job'));
  await screen.findByRole('dialog', { name: 'Cancel this job?' });
  expect(asked).toEqual([]);
  fireEvent.click(button('Cancel job'));
  await waitFor(() => expect(asked).toEqual([expect.stringMatching(/^PATCH .*mode=cancel$/)]));
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
