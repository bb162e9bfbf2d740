// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, test } from 'vitest';

import type { Session } from '../../gen/contract';
import { JobProvider } from '../../hooks/useJob';
import { LiveContext } from '../../hooks/useLive';
import { SESSION_KEY } from '../../hooks/useSession';
import { liveJob } from '../../model/testData';
import { LiveConnection } from '../../store/liveConnection';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { VertexTable } from './VertexTable';

afterEach(cleanup);

test('a vertex of which some subtasks have finished shows how many, and others show nothing', () => {
  const job = liveJob({ map: [], sink: ['map'] });
  Object.assign(job.moving.vertices.map ?? {}, { parallelism: 4, finished: 3 });
  const socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  const topic = `job:${job.static.id}` as const;
  connection.subscribe(topic, () => undefined);
  socket.says({ type: 'snapshot', topic, version: 1, data: job });
  const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  queries.setQueryData<Partial<Session>>(SESSION_KEY, { user: { name: 'vera', role: 'viewer' }, submission: '' });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queries}>
        <MemoryRouter>
          <LiveContext value={connection}>
            <JobProvider value={job.static.id}>
              <VertexTable selected={null} onSelect={() => undefined} />
            </JobProvider>
          </LiveContext>
        </MemoryRouter>
      </QueryClientProvider>
    </MantineProvider>,
  );
  const [bar, ...others] = screen.getAllByRole<HTMLProgressElement>('progressbar');
  expect([bar?.value, bar?.max, others]).toEqual([3, 4, []]);
  expect(screen.getByText('3 of 4 finished')).toBeDefined();
});
