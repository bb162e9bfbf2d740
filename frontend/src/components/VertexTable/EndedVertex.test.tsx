// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen, within } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, test } from 'vitest';

import { JobProvider } from '../../hooks/useJob';
import { LiveContext } from '../../hooks/useLive';
import { figures, liveJob } from '../../model/testData';
import { LiveConnection } from '../../store/liveConnection';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { EdgeLabel } from '../JobGraph/JobGraph';
import { VertexTable } from './VertexTable';

afterEach(cleanup);

const EDGE = { id: 'e', edge: 'map-sink', source: 'map', target: 'sink', shipStrategy: 'HASH' };

function show(state: 'RUNNING' | 'FAILED') {
  const job = liveJob({ map: [], sink: ['map'] });
  Object.assign(job.moving.vertices.sink ?? {}, { state });
  job.moving.figures.sink = figures({ busy: 420 });
  job.moving.edges['map-sink'] = [5, 5, 0, 0, 1, 144, null];
  const socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  const topic = `job:${job.static.id}` as const;
  connection.subscribe(topic, () => undefined);
  socket.says({ type: 'snapshot', topic, version: 1, data: job });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <MemoryRouter>
          <LiveContext value={connection}>
            <JobProvider value={job.static.id}>
              <EdgeLabel edge={EDGE} mayPeek={false} />
              <VertexTable selected={null} onSelect={() => undefined} />
            </JobProvider>
          </LiveContext>
        </MemoryRouter>
      </QueryClientProvider>
    </MantineProvider>,
  );
  const row = screen.getAllByRole('row').at(-1);
  if (row === undefined) throw new Error('the table has no row');
  return within(row);
}

test('a vertex that runs has a load, and one that has ended has none', () => {
  expect(show('RUNNING').getByText(/42/)).toBeTruthy();
  expect(screen.getByText(/queued$/)).toBeTruthy();
  cleanup();
  expect(show('FAILED').queryByText(/%/)).toBeNull();
  // nor is anything queued before it
  expect(screen.queryByText(/queued$/)).toBeNull();
});
