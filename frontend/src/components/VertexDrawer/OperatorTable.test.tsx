// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act, cleanup, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { JobProvider } from '../../hooks/useJob';
import { LiveContext } from '../../hooks/useLive';
import { operatorRow } from '../../model/pipeline/testRunning';
import { liveJob } from '../../model/testData';
import { LiveConnection } from '../../store/liveConnection';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { OperatorTable } from './OperatorTable';

const JOB = liveJob({ source: [] });
const topic = `job:${JOB.static.id}` as const;
const operatorsTopic = `${topic}/operators` as const;
const OPERATORS = [
  { uid: 'head', id: 'head-id', name: 'Source: bids' },
  { uid: 'next', id: 'next-id', name: 'late ones', input: { operator: 'head', side_output: 'late' } },
];
let socket: ScriptedSocket;

beforeEach(() => {
  // nothing is read over REST while the socket is open
  vi.stubGlobal('fetch', () => Promise.resolve(new Response('', { status: 500 })));
  socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  connection.subscribe(topic, () => undefined);
  socket.says({ type: 'snapshot', topic, version: 1, data: JOB });
  render(
    <QueryClientProvider client={new QueryClient()}>
      <LiveContext value={connection}>
        <JobProvider value={JOB.static.id}>
          <OperatorTable operators={OPERATORS} />
        </JobProvider>
      </LiveContext>
    </QueryClientProvider>,
  );
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const rows = () => screen.getAllByRole('row').map((row) => row.textContent.replaceAll('\u202f', ' '));

test('the figures of operators are subscribed to while they are shown', () => {
  expect(socket.sent).toContainEqual({ type: 'subscribe', topic: operatorsTopic });
  expect(rows()[1]).toBe('Source: bidshead–––––');
  cleanup();
  expect(socket.sent).toContainEqual({ type: 'unsubscribe', topic: operatorsTopic });
});

test('each operator of a chain has figures of its own', () => {
  const figures = { head: operatorRow(1_000, 900, 100, 90, 9_000), next: operatorRow(100, 7, 10, 0.5, 'max') };
  act(() =>
    socket.says({ type: 'snapshot', topic: operatorsTopic, version: 1, data: { version: 1, now: 0, figures } }),
  );
  expect(rows()[1]).toMatch(/^Source: bidshead1,000100\/s90090\/s.*1970/);
  expect(rows()[2]).toMatch(/^late onesnextreads the side output late10010\/s70\.5\/s/);
  const patch = { figures: { next: operatorRow(200, 7, 100, 0, 'max') } };
  act(() => socket.says({ type: 'change', topic: operatorsTopic, from: 1, version: 2, patch }));
  expect(rows()[1]).toMatch(/1,000100\/s/);
  expect(rows()[2]).toMatch(/200100\/s70\/s/);
});
