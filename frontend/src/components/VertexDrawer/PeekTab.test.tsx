// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { PeekAnswer, Role, SeenElement } from '../../gen/contract';
import { JobProvider } from '../../hooks/useJob';
import { LiveContext } from '../../hooks/useLive';
import { SESSION_KEY } from '../../hooks/useSession';
import { liveJob, vertex } from '../../model/testData';
import { LiveConnection } from '../../store/liveConnection';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { PeekTab } from './PeekTab';

const RUNNING = vertex('map', ['source'], { parallelism: 1 });
let late: Record<string, number>;
/** Sends a change of the job. */
let says: (patch: object) => void;
let asked: { method: string; path: string; body: unknown }[];
let elements: SeenElement[];
let counts: Omit<PeekAnswer, 'elements'>;
let status: number;

function seen(number: number, more: Partial<SeenElement> = {}): SeenElement {
  const row = {
    kind: 'row' as const,
    subtask: 0,
    passed_at: 0,
    timestamp: 1_700_000_000_000,
    watermark: null,
    text: '',
    row_kind: '+I',
  };
  return { number, ...row, value: { n: number, password: '******' }, is_cut: false, ...more };
}

/** Plays the routes of peeks. */
function server(url: string, init: RequestInit = {}): Promise<Response> {
  const method = init.method ?? 'GET';
  const { pathname, search } = new URL(url, 'http://host');
  asked.push({
    method,
    path: pathname + search,
    body: init.body === undefined ? null : JSON.parse(init.body as string),
  });
  const answer = method === 'POST' ? { id: 'p', lease: 30_000 } : { ...counts, elements };
  const code = method === 'GET' ? status : 200;
  const body = code === 200 ? answer : { errors: [{ code: 'error', field: '', message: 'no' }] };
  return Promise.resolve(new Response(JSON.stringify(body), { status: code }));
}

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  elements = [];
  late = {};
  counts = { rows: 0, dropped: 0, subtasks: [0], problem: '' };
  status = 200;
  vi.stubGlobal('fetch', server);
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

function show(role: Role = 'operator', link = '/', shown = RUNNING) {
  const job = liveJob({ source: [], map: ['source'], sink: ['map'] });
  job.derived.late_records = late;
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  queries.setQueryData(SESSION_KEY, { user: { username: 'olga', role }, submission: '' });
  const socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  const topic = `job:${job.static.id}` as const;
  connection.subscribe(topic, () => undefined);
  socket.says({ type: 'snapshot', topic, version: 1, data: job });
  says = (patch) =>
    act(() => socket.says({ type: 'change', topic, from: 1, version: 2, patch: { version: 2, ...patch } }));
  return render(
    <MantineProvider env="test">
      <QueryClientProvider client={queries}>
        <MemoryRouter initialEntries={[link]}>
          <LiveContext value={connection}>
            <JobProvider value={job.static.id}>
              <PeekTab jobId="j" vertex={shown} />
            </JobProvider>
          </LiveContext>
        </MemoryRouter>
      </QueryClientProvider>
    </MantineProvider>,
  );
}

const pass = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));
const press = async (name: string) => {
  fireEvent.click(screen.getByRole('button', { name }));
  await pass(0);
};
const rows = () => screen.queryAllByRole('row').slice(1);
const looks = () => asked.filter(({ method }) => method === 'GET');

test('nothing is asked before somebody presses the button', async () => {
  show();
  await pass(5_000);
  expect(asked).toEqual([]);
});

test('rows come with their times, marks between them, the newest first', async () => {
  show();
  elements = [
    seen(1),
    seen(2, { kind: 'watermark', timestamp: 1_700_000_000_000, value: null, row_kind: '' }),
    seen(3, { row_kind: '-U', is_cut: true }),
    seen(4, { kind: 'barrier', timestamp: null, text: '812', value: null, row_kind: '' }),
  ];
  counts = { rows: 1_000, dropped: 0, subtasks: [0], problem: '' };
  await press('Peek');
  const texts = rows().map(({ textContent }) => textContent);
  expect(texts).toHaveLength(4);
  expect(texts[0]).toContain('Barrier of checkpoint 812');
  expect(texts[1]).toMatch(/late.*-U.*"n":3.*\*{6}.*shortened/);
  expect(texts[2]).toContain('Watermark');
  expect(texts[3]).toContain('"n":1');
  expect(screen.getByText(/1,000 rows have passed/)).toBeTruthy();
  expect(asked[0]).toEqual({ method: 'POST', path: '/api/v1/jobs/j/peeks', body: { edge: 'source-map' } });
});

test('late records come with the watermark that had passed them, and by how much they were late', async () => {
  late = { 'map-uid': 12 };
  show('operator', '/?peek=late:map-uid');
  elements = [seen(1, { kind: 'late', watermark: 1_700_000_003_000 })];
  counts = { rows: 12, dropped: 0, subtasks: [0], problem: '' };
  await press('Peek');
  expect(asked[0]?.body).toEqual({ late: 'map-uid' });
  expect(rows()[0]?.textContent).toMatch(/3\ss late.*Watermark 2023-11-14.*"n":1.*\*{6}/);
  expect(screen.getByText(/12 records were dropped as late/)).toBeTruthy();
});

test('a peek at late records goes on while a rescaled job has none for a moment', async () => {
  late = { 'map-uid': 12 };
  show('operator', '/?peek=late:map-uid');
  await press('Peek');
  says({ derived: { late_records: {} } });
  await pass(5_000);
  expect(screen.getByRole('button', { name: 'Stop' })).toBeTruthy();
  expect(asked.filter(({ method }) => method === 'DELETE')).toEqual([]);
});

test('each look asks for what is new', async () => {
  show();
  elements = [seen(7)];
  await press('Peek');
  elements = [seen(8)];
  await pass(1_000);
  expect(looks().map(({ path }) => path)).toEqual(['/api/v1/jobs/j/peeks/p?after=0', '/api/v1/jobs/j/peeks/p?after=7']);
  expect(rows()).toHaveLength(2);
});

test('a table that is paused stands still while the peek goes on', async () => {
  show();
  elements = [seen(1)];
  await press('Peek');
  await press('Pause');
  elements = [seen(2)];
  await pass(3_000);
  expect(rows()).toHaveLength(1);
  expect(looks().length).toBeGreaterThan(2);
  await press('Go on');
  expect(rows()).toHaveLength(2);
});

test('a peek ends with the button, and with the panel', async () => {
  const panel = show();
  await press('Peek');
  await press('Stop');
  const ends = () => asked.filter(({ method }) => method === 'DELETE').length;
  expect(ends()).toBe(1);
  const before = looks().length;
  await pass(5_000);
  expect(looks()).toHaveLength(before);
  await press('Peek');
  panel.unmount();
  await pass(5_000);
  expect(ends()).toBe(2);
});

test('a peek whose beginning is answered when the panel is gone ends at once', async () => {
  const panel = show();
  fireEvent.click(screen.getByRole('button', { name: 'Peek' }));
  panel.unmount();
  await pass(0);
  expect(asked.map(({ method, path }) => `${method} ${path}`)).toEqual([
    'POST /api/v1/jobs/j/peeks',
    'DELETE /api/v1/jobs/j/peeks/p',
  ]);
});

test('a page in the background does not look', async () => {
  show();
  await press('Peek');
  const before = looks().length;
  vi.spyOn(document, 'hidden', 'get').mockReturnValue(true);
  await pass(5_000);
  expect(looks()).toHaveLength(before);
});

test('a peek that has ended can be begun again', async () => {
  show();
  await press('Peek');
  status = 404;
  await pass(1_000);
  expect(screen.getByRole('status').textContent).toBe('The peek has ended.');
  status = 200;
  await press('Peek');
  expect(screen.getByRole('status').textContent).toBe('');
});

test('a server that does not answer for a moment ends nothing', async () => {
  show();
  await press('Peek');
  status = 503;
  await pass(1_000);
  status = 200;
  elements = [seen(1)];
  await pass(1_000);
  expect(rows()).toHaveLength(1);
});

test('it is said why there is nothing to be seen', async () => {
  show();
  counts = { rows: 0, dropped: 2, subtasks: [], problem: 'none of the subtasks runs' };
  await press('Peek');
  expect(screen.getByRole('status').textContent).toBe('none of the subtasks runs');
  expect(screen.getByText(/2 were too much/)).toBeTruthy();
});

test('a vertex that does not run says so, and only the newest reason is given', async () => {
  show('operator', '/', { ...RUNNING, state: 'CANCELED' });
  await pass(0);
  expect(screen.getByRole('status').textContent).toBe('The vertex does not run.');
  expect(screen.getByRole('button', { name: 'Peek' }).hasAttribute('disabled')).toBe(true);
});

test('a link names the edge', async () => {
  show('operator', '/?peek=map-sink');
  await press('Peek');
  expect(asked[0]?.body).toEqual({ edge: 'map-sink' });
});

test('viewers see no rows', async () => {
  show('viewer');
  await pass(0);
  expect(screen.queryByRole('button', { name: 'Peek' })).toBeNull();
  expect(screen.getByText('Rows are for operators')).toBeTruthy();
});
