// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { MemoryRouter, useLocation } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { JobLog, JobLogEntry, LogFile } from '../../gen/contract';
import { LiveContext } from '../../hooks/useLive';
import { LiveConnection } from '../../store/liveConnection';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { JobLogText } from './JobLogText';

const asked: URLSearchParams[] = [];
let answers: (query: URLSearchParams) => JobLog;

const entry = (text: string, overrides: Partial<JobLogEntry> = {}): JobLogEntry => ({
  time: Date.UTC(2026, 6, 1, 12, 0, 0, 123),
  level: 'INFO',
  attempt: 0,
  slot: 0,
  kind: 'log',
  vertex: '',
  subtask: null,
  operator: '',
  name: 'attempt-0/slot-0.log',
  offset: 0,
  text,
  is_cut: false,
  ...overrides,
});

const log = (entries: JobLogEntry[], overrides: Partial<JobLog> = {}): JobLog => ({
  entries,
  cursor: null,
  follow: 'follow-1',
  is_complete: true,
  searched_to: null,
  left: 0,
  size: 2_000,
  logs: 2,
  left_out: 0,
  ...overrides,
});

const FILES: LogFile[] = [0, 1].map((slot) => ({
  name: `attempt-0/slot-${slot}.log`,
  attempt: 0,
  slot,
  kind: 'log',
  size: 1_000,
  mtime: 0,
}));

function Address() {
  return <output aria-label="address">{useLocation().search}</output>;
}

function show(search: string, isLive = false, connection = new LiveConnection(() => new ScriptedSocket())) {
  const vertices = [{ id: 'f'.repeat(32), name: 'Map', operators: [{ uid: 'parse', name: 'Parse' }] }];
  render(
    <MantineProvider>
      <LiveContext value={connection}>
        <MemoryRouter initialEntries={[`/jobs/1${search}`]}>
          <JobLogText jobId="1" isLive={isLive} files={FILES} vertices={vertices} picker={null} />
          <Address />
        </MemoryRouter>
      </LiveContext>
    </MantineProvider>,
  );
}

const lines = () => screen.getByRole('log').textContent;
const address = () => screen.getByLabelText('address').textContent;
const search = () => screen.getByRole('textbox', { name: 'Search in the log' });

beforeEach(() => {
  asked.splice(0);
  vi.stubGlobal('fetch', (url: string) => {
    const query = new URL(url, 'http://host').searchParams;
    asked.push(query);
    return Promise.resolve(new Response(JSON.stringify(answers(query))));
  });
  // nothing is drawn in a list without a height
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(400);
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(800);
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

test('entries stand in the order of time with level and task, and each line of a record is shown', async () => {
  answers = () =>
    log([
      entry('demo - failed\nTraceback', { level: 'ERROR', vertex: 'f'.repeat(32), subtask: 1 }),
      entry('demo - began'),
    ]);
  show('');
  await screen.findByText('Traceback');
  expect(lines()).toMatch(/demo - began.*ERROR.*Map 2.*demo - failed.*Traceback/);
  expect(screen.getByText('Traceback').closest('[data-level]')?.getAttribute('data-level')).toBe('error');
  expect(screen.getByText('2 entries · 2 logs of 1.95 KiB', { exact: false })).toBeTruthy();
});

test('a link has the search, and what is typed and chosen comes into it', async () => {
  answers = () => log([entry('demo - slow')]);
  show(`?tab=logs&q=slow&level=WARN&slot=1&attempt=0&logVertex=${'f'.repeat(32)}&logFrom=1000`);
  await screen.findByText('slow', { selector: 'mark' });
  expect(Object.fromEntries(asked[0] ?? [])).toEqual({
    q: 'slow',
    level: 'WARN',
    slot: '1',
    attempt: '0',
    vertex: 'f'.repeat(32),
    from: '1000',
  });
  fireEvent.change(search(), { target: { value: 'slower' } });
  await waitFor(() => expect(address()).toContain('q=slower'));
  expect(address()).toContain('tab=logs');
  await waitFor(() => expect(asked.at(-1)?.get('q')).toBe('slower'));
  fireEvent.click(screen.getByRole('button', { name: /^From / }));
  expect(address()).not.toContain('logFrom');
  fireEvent.click(screen.getByRole('button', { name: 'Clear the search' }));
  await waitFor(() => expect(address()).not.toContain('q='));
});

test('lines say their operator, or the process that has logged them, and both can be chosen', async () => {
  const process = { attempt: null, slot: null, vertex: '' };
  answers = () =>
    log([
      entry('a command was refused', { ...process, kind: 'taskmanager', name: 'taskmanager/host:1' }),
      entry('the job was taken', { ...process, kind: 'jobmanager', name: 'jobmanager/host:2' }),
      entry('demo - slow', { vertex: 'f'.repeat(32), subtask: 1, operator: 'parse' }),
    ]);
  show('?logOperator=parse&logKind=log');
  await screen.findByText('demo - slow');
  expect(lines()).toMatch(/Parse 2.*demo - slow.*JobManager.*was taken.*TaskManager.*refused/);
  expect([asked[0]?.get('operator'), asked[0]?.get('kind')]).toEqual(['parse', 'log']);
  fireEvent.click(screen.getByRole('combobox', { name: 'Source' }));
  fireEvent.click(await screen.findByRole('option', { name: 'JobManagers', hidden: true }));
  await waitFor(() => expect(address()).toContain('logKind=jobmanager'));
  fireEvent.click(screen.getByRole('combobox', { name: 'Vertex' }));
  fireEvent.click(await screen.findByRole('option', { name: 'Map', hidden: true }));
  await waitFor(() => expect(address()).toContain('logVertex='));
  expect(address()).not.toContain('logOperator');
});

test('over the live socket the log is followed without asking, until that is not wanted', async () => {
  const socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  answers = () => log([entry('first')]);
  show('?level=INFO', true, connection);
  await screen.findByText('first');
  const query = { level: 'INFO', cursor: 'follow-1' };
  await waitFor(() => expect(socket.sent).toMatchObject([{ type: 'follow', job: '1', query }]));
  const { id } = socket.sent[0] as { id: string };
  act(() => socket.says({ type: 'log', id, part: log([entry('second')], { cursor: 'follow-2' }) }));
  act(() => socket.says({ type: 'log', id, part: log([entry('third')], { cursor: 'follow-3' }) }));
  expect(lines()).toMatch(/first.*second.*third/);
  expect(asked).toHaveLength(1);
  fireEvent.click(screen.getByRole('switch', { name: 'Follow' }));
  expect(socket.sent.at(-1)).toEqual({ type: 'unfollow', id });
  fireEvent.click(screen.getByRole('switch', { name: 'Follow' }));
  expect(socket.sent.at(-1)).toMatchObject({ type: 'follow', query: { cursor: 'follow-3' } });
  cleanup();
  expect(socket.sent.at(-1)).toMatchObject({ type: 'unfollow' });
});

test('what the socket refuses to follow is asked for, so that the reason is told', async () => {
  const socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  vi.useFakeTimers({ shouldAdvanceTime: true });
  answers = (query) => (query.has('cursor') ? log([entry('second')], { cursor: 'follow-2' }) : log([entry('first')]));
  show('', true, connection);
  await screen.findByText('first');
  await waitFor(() => expect(socket.sent).toHaveLength(1));
  const { id } = socket.sent[0] as { id: string };
  act(() => socket.says({ type: 'log-ended', id, message: 'The storage of logs does not answer.' }));
  await act(() => vi.advanceTimersByTimeAsync(1_600));
  expect(lines()).toMatch(/first.*second/);
});

test('the search goes on by itself until something is found, and says how far it has looked', async () => {
  answers = (query) =>
    query.get('cursor') === 'b'
      ? log([entry('demo - needle')], { cursor: 'c', is_complete: false, left: 500, searched_to: 1_000 })
      : log([], { cursor: query.has('cursor') ? 'b' : 'a', is_complete: false, left: 900, searched_to: 2_000 });
  show('?q=needle');
  await screen.findByText('needle', { selector: 'mark' });
  expect(asked.map((query) => query.get('cursor'))).toEqual([null, 'a', 'b']);
  expect(screen.getByText(/searched back to .*500 B left/)).toBeTruthy();
  answers = () => log([entry('demo - older needle')]);
  fireEvent.click(screen.getByRole('button', { name: 'Look further back' }));
  await screen.findByText(/older/);
  expect(lines()).toMatch(/older needle.*demo - needle/);
  expect(screen.queryByRole('button', { name: 'Look further back' })).toBeNull();
});

test('what is written later is followed as long as that is wanted', async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  let count = 1;
  answers = (query) =>
    query.has('cursor')
      ? log([entry(`demo - line ${count}`)], { cursor: `follow-${(count += 1)}` })
      : log([entry('first')]);
  show('?level=INFO', true);
  await screen.findByText('first');
  // a state of the page comes into effect at the end of each
  for (let tick = 0; tick < 2; tick += 1) await act(() => vi.advanceTimersByTimeAsync(1_600));
  expect(lines()).toMatch(/first.*line 1.*line 2/);
  const followed = asked.filter((query) => query.get('order') === 'oldest');
  expect(followed.map((query) => query.get('cursor')).slice(0, 2)).toEqual(['follow-1', 'follow-2']);
  expect(followed.every((query) => query.get('level') === 'INFO')).toBe(true);
  fireEvent.click(screen.getByRole('switch', { name: 'Follow' }));
  const before = asked.length;
  await act(() => vi.advanceTimersByTimeAsync(6_000));
  expect(asked).toHaveLength(before);
});

test('a follower that is behind asks again at once, and logs that are left out are told', async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  answers = (query) => {
    const number = Number(query.get('cursor')?.slice(7) ?? 0);
    if (number === 0) return log([entry('first')], { left_out: 600 });
    return log([entry(`demo - line ${number}`)], { cursor: `follow-${number + 1}`, is_complete: number >= 5 });
  };
  show('', true);
  await screen.findByText('first');
  expect(screen.getByText(/600 logs left out: choose an attempt or a slot/)).toBeTruthy();
  await act(() => vi.advanceTimersByTimeAsync(1_600));
  for (let tick = 0; tick < 5; tick += 1) await act(() => vi.advanceTimersByTimeAsync(50));
  expect(lines()).toMatch(/line 1.*line 5/);
});

test('a server that refuses is told, and nothing found is no empty log', async () => {
  vi.stubGlobal('fetch', () =>
    Promise.resolve(
      new Response(JSON.stringify({ errors: [{ message: 'The job has no vertex x.' }] }), { status: 400 }),
    ),
  );
  show('?logVertex=x');
  expect(await screen.findByRole('alert')).toBeTruthy();
  cleanup();
  vi.stubGlobal('fetch', () => Promise.resolve(new Response(JSON.stringify(log([])))));
  show('?q=nowhere');
  expect(await screen.findByText('No line is what you look for.')).toBeTruthy();
});
