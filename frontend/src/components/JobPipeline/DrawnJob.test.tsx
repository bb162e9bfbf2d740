// @vitest-environment happy-dom
import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { Profiler } from 'react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { LiveJob } from '../../gen/contract';
import { JobProvider } from '../../hooks/useJob';
import { LiveContext } from '../../hooks/useLive';
import { topologyOfPipeline } from '../../model/pipeline/picture';
import { DRAWN, drawnDocument, drawnJob, edgeRow, operatorRow } from '../../model/pipeline/testRunning';
import { cause, figures, jobException } from '../../model/testData';
import { LiveConnection } from '../../store/liveConnection';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { DrawnEdge, DrawnNode, DrawnProvider, drawnOf } from './DrawnJob';

const FIRST = drawnJob();
const document = drawnDocument();
const topic = `job:${FIRST.static.id}` as const;
const operatorsTopic = `${topic}/operators` as const;
const LINES = [{ node: 'split', first: 10, last: 14, code_line: 1 }];
let socket: ScriptedSocket;
let rendered: string[];
const select = vi.fn();

beforeEach(() => {
  select.mockClear();
  socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  connection.subscribe(topic, () => undefined);
  socket.says({ type: 'snapshot', topic, version: 1, data: FIRST });
  connection.subscribe(operatorsTopic, () => undefined);
  socket.says({ type: 'snapshot', topic: operatorsTopic, version: 1, data: { figures: FIRST.operators } });
  const known = drawnOf({ document, lines: LINES }, DRAWN, FIRST.static);
  rendered = [];
  const noted = (name: string) => rendered.push(name);
  render(
    <MemoryRouter>
      <LiveContext value={connection}>
        <JobProvider value={FIRST.static.id}>
          <DrawnProvider value={known}>
            {Object.keys(document.nodes).map((id) => (
              <Profiler key={id} id={id} onRender={noted}>
                <section aria-label={id}>
                  <DrawnNode id={id} isSelected={false} onSelect={select} />
                </section>
              </Profiler>
            ))}
            {topologyOfPipeline(document, DRAWN.outputs).edges.map((edge) => (
              <Profiler key={edge.id} id={edge.id} onRender={noted}>
                <section aria-label={edge.id}>
                  <DrawnEdge edge={edge} mayPeek />
                </section>
              </Profiler>
            ))}
          </DrawnProvider>
        </JobProvider>
      </LiveContext>
    </MemoryRouter>,
  );
  rendered = [];
});

afterEach(cleanup);

function change(version: number, patch: { now?: number; moving?: object; derived?: LiveJob['derived'] }) {
  const data = { version, ...patch };
  act(() => socket.says({ type: 'change', topic, from: version - 1, version, patch: data }));
}

function changeOperators(version: number, figures: object) {
  const patch = { version, figures };
  act(() => socket.says({ type: 'change', topic: operatorsTopic, from: version - 1, version, patch }));
}

const shown = (id: string) => screen.getByRole('region', { name: id }).textContent;

test('each node and edge shows its own figures', () => {
  expect(shown('split')).toMatch(/^Split×1RUNNINGReceived100\/sSent93\/sBusy30%Backpressured6%.*Watermark/);
  expect(shown('join')).toMatch(/^Join×2RUNNINGReceived8\/sSent2\/s/);
  expect(shown('join')).not.toContain('Watermark');
  expect(shown('all')).toBe('AllPasses records onReceived9/sSent9/s');
  expect(shown('off')).toBe('OffNot part of the job');
  expect(shown('split-totals')).toBe('out90/s');
  expect(shown('large-join')).toMatch(/^large3\/s128\sB queued$/);
  expect(shown('bids-off')).toBe('');
});

test('what there is no room for is said where the pointer is', () => {
  const title = (id: string) =>
    within(screen.getByRole('region', { name: id }))
      .getByTitle(/records/)
      .getAttribute('title')
      ?.split('\n');
  expect(title('split')).toEqual([
    'Split',
    '1,000 records received',
    '930 records sent',
    'Load and state are those of the task that it shares with Bids, Totals',
  ]);
  expect(title('bids-split')).toEqual(['1,000 records', 'In one task: nothing is sent, nothing waits']);
  expect(title('rates-join')?.map((line) => line.replaceAll('\u202f', ' '))).toEqual([
    '50 records',
    '500 B/s',
    '64 B queued, buffers: 1',
  ]);
});

test('a change of one figure paints one node, and the edges that it is of', () => {
  changeOperators(2, { 'totals/local': operatorRow(901, 75, 91, 7.5, 8_000) });
  expect(rendered.toSorted()).toEqual(['split', 'split-totals', 'totals']);
  rendered = [];
  change(2, { moving: { edges: { 2: edgeRow(50, 5, 500, 65) } } });
  expect(rendered).toEqual(['rates-join']);
  rendered = [];
  change(3, { moving: { figures: { join: figures({ busy: 900, idle: 100 }) } } });
  expect(rendered).toEqual(['join']);
  rendered = [];
  change(4, { now: 5, moving: { job: { restarts: 3 } } });
  expect(rendered).toEqual([]);
});

test('the state of a node is that of its vertices in the latest checkpoint', () => {
  change(2, { moving: { figures: { bids: figures({ state_size: 1_024 }), totals: figures({ state_size: 2_048 }) } } });
  expect(shown('totals')).toContain('State3.00\u202fKiB');
  expect(shown('split')).toContain('State1.00\u202fKiB');
  expect(shown('rates')).not.toContain('State');
});

test('a click leads to the first vertex of the node', () => {
  fireEvent.click(screen.getByRole('button', { name: 'Totals' }));
  expect(select).toHaveBeenCalledExactlyOnceWith('bids');
  expect(screen.queryByRole('button', { name: 'All' })).toBeNull();
});

test('an edge leads to its rows, also one within a chain', () => {
  const link = (name: string) => screen.getByRole('link', { name }).getAttribute('href');
  expect(link('Peek at Bids → Split')).toBe('/?vertex=bids&vtab=peek&peek=into%3Asplit');
  expect(link('Peek at Rates → Join')).toMatch(/^\/\?vertex=join&vtab=peek&peek=\d+$/);
  expect(screen.queryByRole('link', { name: 'Peek at Bids → Off' })).toBeNull();
});

test('bottlenecks, failures and calls that do not return stand at their nodes', () => {
  const stacktrace = 'Traceback\n  File "/tmp/drawn-v1.py", line 12, in f\nValueError: x';
  const stall = { vertex: 'bids', subtask: 0, task_name: 'f (1/1)', slot: 1, since: 0, stack: stacktrace };
  change(2, {
    moving: { exceptions: { a: jobException({ stacktrace }), b: jobException({ stacktrace }) }, stalls: { s: stall } },
    derived: { causes: { limit: cause('join') } },
  });
  expect(shown('split')).toContain('does not return2 failures');
  expect(screen.getByText('bottleneck').closest('section')?.getAttribute('aria-label')).toBe('join');
  expect(rendered.toSorted()).toEqual(['join', 'split']);
});

test('of replayed data a watermark is behind the newest one, of live data behind the clock', () => {
  const time = { newest: 9_000, held_by: {} };
  change(2, { now: 60_000, derived: { causes: {}, event_time: { ...time, is_live: false } } });
  expect(shown('totals')).toMatch(/Behind 1\ss$/);
  expect(shown('split')).not.toMatch(/Behind|Lag/);
  change(3, {
    now: 61_000,
    derived: { causes: {}, event_time: { ...time, is_live: true, live: { bids: true, join: true } } },
  });
  expect(shown('totals')).toMatch(/Lag 53\ss$/);
});
