// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { MetricHistory, Session, VertexMetrics } from '../../gen/contract';
import { JobProvider } from '../../hooks/useJob';
import { LiveContext } from '../../hooks/useLive';
import { SESSION_KEY } from '../../hooks/useSession';
import { figures, liveJob } from '../../model/testData';
import { LiveConnection } from '../../store/liveConnection';
import { chooseCharts, forgetChartChoices } from '../../store/chartChoices';
import { recordJob } from '../../store/metricHistory';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { ChartsTab } from './ChartsTab';

const NOW = Date.now();
const asked: URL[] = [];

function answer(overrides: Partial<MetricHistory> = {}): MetricHistory {
  const times = [NOW - 60_000, NOW - 30_000];
  const series = { 'v.map.busy': [300, 400], 'v.map.idle': [700, null] };
  return { is_available: true, begin: 0, end: NOW, step: 5_000, times, series, events: [], ...overrides };
}

const METRICS: VertexMetrics = {
  subtasks: [0, 1],
  operators: [{ id: 'abcdef12', name: 'map', scope: 'abcdef12' }],
  metrics: [
    { id: 'abcdef12.tides', values: { 0: 4, 1: 8 } },
    { id: 'abcdef12.moon', values: { 0: 'full', 1: 'new' } },
  ],
};

/** What the server tells; undefined: it fails. */
function tells(told: MetricHistory | undefined): void {
  vi.stubGlobal('fetch', (url: string) => {
    if (url.endsWith('/metrics')) return Promise.resolve(new Response(JSON.stringify(METRICS)));
    asked.push(new URL(url, 'http://host'));
    return Promise.resolve(told === undefined ? new Response('', { status: 500 }) : new Response(JSON.stringify(told)));
  });
}

function show(told: MetricHistory, job = liveJob({ map: [] })): QueryClient {
  tells(told);
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  queries.setQueryData<Partial<Session>>(SESSION_KEY, { user: { name: 'oscar', role: 'operator' } });
  const socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  const topic = `job:${job.static.id}` as const;
  connection.subscribe(topic, () => undefined);
  socket.says({ type: 'snapshot', topic, version: 1, data: job });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queries}>
        <MemoryRouter>
          <LiveContext value={connection}>
            <JobProvider value={job.static.id}>
              <ChartsTab jobId={job.static.id} vertexId="map" />
            </JobProvider>
          </LiveContext>
        </MemoryRouter>
      </QueryClientProvider>
    </MantineProvider>,
  );
  return queries;
}

const chart = (name: RegExp) => screen.findByRole('img', { name });
const asks = (name: string) => asked.map((url) => url.searchParams.get(name));

beforeEach(() => {
  asked.splice(0);
  localStorage.clear();
  forgetChartChoices();
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

test('a page that was just opened shows what the server has kept', async () => {
  show(answer());
  await chart(/Busy between 30% and 40%; Backpressured has no value; Idle between 70% and 70%/);
  expect(Number(asks('from')[0])).toBeGreaterThanOrEqual(NOW - 600_000);
  expect(asks('to')).toEqual([null]);
});

test('a longer window is asked for', async () => {
  show(answer());
  fireEvent.click(screen.getByRole('radio', { name: '24 h' }));
  await waitFor(() => expect(asked).toHaveLength(2));
  expect(Number(asks('from')[0]) - Number(asks('from')[1])).toBeCloseTo(23 * 3_600_000 + 50 * 60_000, -4);
});

test('the charts of a job that has ended end with it', async () => {
  const job = liveJob({ map: [] });
  job.moving.job.end_time = NOW - 5_000;
  show(answer(), job);
  await chart(/Busy between/);
  expect(asks('to')).toEqual([String(NOW - 5_000)]);
  expect(asks('from')).toEqual([String(NOW - 605_000)]);
});

test('without Redis the charts show what the page has seen, and say so', async () => {
  const job = liveJob({ map: [] });
  job.moving.figures = { map: figures({ busy: 900, idle: 100 }) };
  recordJob(job, NOW);
  show(answer({ is_available: false, times: [], series: {} }), job);
  await chart(/Busy between 90% and 90%/);
  expect((await screen.findByText(/Redis does not answer/)).textContent).toContain('since this page was opened');
});

test.each([answer({ is_available: false, times: [], series: {} }), undefined])(
  'what the server has told stays when it tells no more, and the page says so',
  async (told) => {
    const queries = show(answer());
    // what the page has seen in another test may be there, too
    await chart(/Busy between 30%/);
    tells(told);
    await act(() => queries.refetchQueries({ queryKey: ['history'] }));
    await waitFor(() => expect(screen.getByText(/may be missing since/)).toBeDefined());
    await chart(/Busy between 30%/);
    tells(answer());
    await act(() => queries.refetchQueries({ queryKey: ['history'] }));
    await waitFor(() => expect(screen.queryByText(/may be missing since/)).toBeNull());
  },
);

test('what happened is marked where it happened', async () => {
  const failure = {
    kind: 'failure' as const,
    begin: NOW - 40_000,
    end: null,
    text: 'attempt 1 failed',
    is_failed: true,
  };
  show(answer({ events: [failure, { ...failure, begin: NOW - 500_000, text: 'long ago' }] }));
  await waitFor(() => expect(screen.getAllByText('attempt 1 failed')).toHaveLength(3));
  expect(screen.queryByText('long ago')).toBeNull();
});

test('of replayed data no age is shown, but how far behind the newest it is and how fast it goes', async () => {
  const series = { 'v.map.watermark': [7_000, 97_000], 'v.map.behind': [0, 5_000] };
  show(answer({ step: 30_000, series }));
  await chart(/Behind the Newest Watermark: Behind between 0\sms and 5\ss/);
  await chart(/Event Time per Real Time: Speed between 3\s× and 3\s×/);
  expect(screen.queryByRole('img', { name: /Lag/ })).toBeNull();
});

test('of live sources the lag behind the clock is shown', async () => {
  const series = { 'v.map.watermark': [7, 8], 'v.map.watermark_lag': [2_000, 3_000], 'v.map.behind': [0, 0] };
  show(answer({ series }));
  await chart(/Watermark Lag: Lag between 2\ss and 3\ss/);
  expect(screen.queryByRole('img', { name: /Behind the Newest|Real Time/ })).toBeNull();
});

test('what the page itself has seen of replayed data has no lag either', async () => {
  const job = liveJob({ scan: [], map: ['scan'] });
  job.moving.figures = { scan: figures({ watermark: 9_000 }), map: figures({ watermark: 2_000 }) };
  job.derived.event_time = { newest: 9_000, is_live: false, held_by: {} };
  recordJob({ ...job, static: { ...job.static, id: 'b'.repeat(32) } }, NOW);
  show(answer({ times: [], series: {} }), { ...job, static: { ...job.static, id: 'b'.repeat(32) } });
  await chart(/Behind between 7\ss and 7\ss/);
  expect(screen.queryByRole('img', { name: /Lag/ })).toBeNull();
});

test('what only the server sees is shown where there is any', async () => {
  const series = { 'v.map.busy': [1, 2], 'v.map.pending_records': [70, 90], 'v.map.state_size': [null, 2048] };
  show(answer({ series: { ...series, 'v.map.late_records_per_second': [0, 0] } }));
  await chart(/Pending Records: Pending between 70 and 90/);
  await chart(/State Size in the Latest Checkpoint: State between 2.00\sKiB and 2.00\sKiB/);
  expect(screen.queryByRole('img', { name: /Late Records/ })).toBeNull();
});

test('records that were dropped as late are shown', async () => {
  show(answer({ series: { 'v.map.late_records_per_second': [0, 4] } }));
  await chart(/Late Records Dropped per Second: Late between 0\/s and 4\/s/);
});

test('the edges of a vertex have charts', async () => {
  const job = liveJob({ scan: [], map: ['scan'], other: ['scan'] });
  show(answer({ series: { 'e.scan-map.queued_bytes': [512, 1024], 'e.scan-map.records_per_second': [5, 7] } }), job);
  fireEvent.click(screen.getByRole('combobox', { name: 'Charts of' }));
  expect(screen.queryByText(/Edge .* other/)).toBeNull();
  fireEvent.click(await screen.findByText('Edge from scan · HASH'));
  await chart(/Queued: Queued between 512\sB and 1.00\sKiB/);
  await chart(/Records per Second: Sent between 5\/s and 7\/s/);
  expect(asks('series').at(-1)).toContain('e.scan-map.bytes_per_second');
  expect(screen.queryByRole('img', { name: /Busy/ })).toBeNull();
});

test('a job whose history has expired says so', async () => {
  const job = liveJob({ map: [] });
  job.static.id = 'c'.repeat(32);
  job.moving.job.end_time = NOW - 90_000_000;
  show(answer({ times: [], series: {} }), job);
  expect(await screen.findByText(/keeps its history for a day/)).toBeDefined();
  expect(screen.queryByRole('img')).toBeNull();
});

/** One of which the page itself has seen nothing in another test. */
function fresh(inputs: Record<string, string[]> = { map: [] }) {
  const job = liveJob(inputs);
  job.static.id = String(fresh.made++).padStart(32, '0');
  return job;
}
fresh.made = 0;

const legend = (name: string) => [...screen.getByRole('figure', { name }).querySelectorAll('li')];

test('a vertex is compared with another one in the same charts, at the same times', async () => {
  const job = fresh({ map: [], sink: ['map'] });
  chooseCharts('oscar', job.static.id, { compare: ['sink', 'gone'] });
  const series = { 'v.map.busy': [300, 400], 'v.sink.busy': [null, 900] };
  show(answer({ series }), job);
  await chart(/map: Busy between 30% and 40%; sink: Busy between 90% and 90%; map: Backpressured/);
  const names = legend('Busy / Backpressured / Idle').map((key) => key.children[1]?.textContent);
  expect(names.slice(0, 2)).toEqual(['map: Busy', 'sink: Busy']);
  const [own, other] = [...screen.getByRole('img', { name: /map: Busy/ }).querySelectorAll('path')];
  expect([own?.getAttribute('stroke-dasharray'), other?.getAttribute('stroke-dasharray')]).toEqual([null, '6 4']);
});

test('busy, backpressured and idle have the colours that they have everywhere', async () => {
  show(answer(), fresh());
  const image = await chart(/Busy between/);
  const strokes = [...image.querySelectorAll('path')].map((path) => path.style.stroke);
  expect(strokes).toEqual(['var(--tm-busy)', 'var(--tm-back-pressured)', 'var(--tm-idle)']);
});

test('the cursor is at the same time in all charts', async () => {
  show(answer({ series: { 'v.map.busy': [300, 400], 'v.map.records_in_per_second': [10, 20] } }), fresh());
  const image = await chart(/Busy between/);
  image.getBoundingClientRect = () => new DOMRect(0, 0, 100, 50);
  const values = () =>
    ['Records per Second', 'Busy / Backpressured / Idle'].map((name) => legend(name)[0]?.textContent);
  expect(values()).toEqual([expect.stringContaining('20/s'), expect.stringContaining('40%')]);
  // within the last minute: the first sample is at its left edge
  fireEvent.pointerMove(image, { clientX: 1 });
  expect(values()).toEqual([expect.stringContaining('10/s'), expect.stringContaining('30%')]);
  fireEvent.pointerLeave(image);
  expect(values()[1]).toContain('40%');
});

test('any metric that is a number is picked, and is there after a reload', async () => {
  const job = fresh();
  show(answer(), job);
  fireEvent.click(await screen.findByRole('combobox', { name: 'Add a chart of a metric' }));
  expect(screen.queryByRole('option', { name: 'moon' })).toBeNull();
  fireEvent.click(await screen.findByRole('option', { name: 'tides' }));
  await chart(/abcdef12.tides: Greatest between 8 and 8; Average between 6 and 6; Least between 4 and 4/);
  cleanup();
  forgetChartChoices();
  show(answer(), job);
  await chart(/abcdef12.tides/);
  fireEvent.click(screen.getByRole('button', { name: 'Remove the chart of abcdef12.tides' }));
  expect(screen.queryByRole('img', { name: /abcdef12.tides/ })).toBeNull();
});

test('a chart is saved as CSV', async () => {
  const saved: Blob[] = [];
  vi.spyOn(URL, 'createObjectURL').mockImplementation((blob) => {
    saved.push(blob as Blob);
    return 'blob:x';
  });
  vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(() => undefined);
  show(answer(), fresh());
  await chart(/Busy between/);
  fireEvent.click(screen.getByRole('button', { name: 'Save Busy / Backpressured / Idle as CSV' }));
  const [head, first, second] = ((await saved[0]?.text()) ?? '').split('\r\n');
  expect(head).toBe('\ufefftime,"Busy","Backpressured","Idle"');
  expect([first, second]).toEqual([expect.stringMatching(/Z,300,,700$/), expect.stringMatching(/Z,400,,$/)]);
  vi.restoreAllMocks();
});
