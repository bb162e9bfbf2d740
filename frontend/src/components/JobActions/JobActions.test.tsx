// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import { MemoryRouter, useLocation } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { ClusterDocument, JobState, OpenOperation, Role, Session, Switch } from '../../gen/contract';
import { JobProvider, useJob } from '../../hooks/useJob';
import { LiveContext } from '../../hooks/useLive';
import { useEarlierOperations } from '../../hooks/useOperation';
import { SESSION_KEY } from '../../hooks/useSession';
import { liveJob } from '../../model/testData';
import { askedOperations, keepOperation } from '../../store/askedOperations';
import { LiveConnection } from '../../store/liveConnection';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { VertexTable } from '../VertexTable/VertexTable';
import { JobActions } from './JobActions';

const asked: string[] = [];

/** What reads answer, by the end of their path; others find nothing. */
const answers = new Map<string, unknown>();
const sent: unknown[] = [];
let onChange: () => void = () => undefined;

beforeEach(() => {
  asked.splice(0);
  sent.splice(0);
  answers.clear();
  onChange = () => undefined;
  vi.stubGlobal('fetch', (url: string, { method = 'GET', body }: RequestInit = {}) => {
    asked.push(`${method} ${url}`);
    if (method !== 'GET') {
      onChange();
      sent.push(JSON.parse((body as string | undefined) ?? '{}'));
      return Promise.resolve(new Response('{"id":"made","request-id":"asked"}', { status: 202 }));
    }
    const found = [...answers].find(([end]) => url.endsWith(end));
    return Promise.resolve(new Response(JSON.stringify(found?.[1] ?? {}), { status: found === undefined ? 404 : 200 }));
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const address = ({ pathname, search }: { pathname: string; search: string }) => pathname + decodeURIComponent(search);

function Shown() {
  useEarlierOperations();
  return (
    <>
      <output>{address(useLocation())}</output>
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

function show(state: JobState, role: Role = 'operator', free = 0, open: readonly OpenOperation[] = []): void {
  const job = liveJob({ map: [], sink: ['map'] });
  job.moving.job.state = state;
  for (const each of open) job.moving.operations[each.trigger_id] = each;
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

test('a stop that is under way is not requested again', () => {
  const stop = { trigger_id: 'before', kind: 'stop', is_begun: true, since: 0, requested_by: 'olga' } as const;
  show('RUNNING', 'operator', 0, [stop]);
  expect(button('Stopping').disabled).toBe(true);
});

test('the result of what the tab requested before it was reloaded is reported, once', async () => {
  keepOperation({ jobId: 'job', kind: 'stop', triggerId: 'before' });
  keepOperation({ jobId: 'job', kind: 'savepoint', triggerId: 'never requested' });
  answers.set('/operations/before', { state: 'COMPLETED', result: { location: 'file:/kept' } });
  show('RUNNING');
  expect(await screen.findByText('The job has stopped')).toBeTruthy();
  expect(screen.getByText('Savepoint file:/kept')).toBeTruthy();
  await waitFor(() => expect(askedOperations()).toEqual([]));
});

test('a viewer stops and cancels nothing', () => {
  show('RUNNING', 'viewer');
  expect(button('Stop with savepoint').disabled).toBe(true);
  expect(button('Actions').disabled).toBe(true);
});

test('the dialog for rescaling tells of earlier rescales, the newest first', async () => {
  const event = { begin: 0, end: 4_000, is_failed: false };
  const events = [
    { ...event, kind: 'rescale', text: 'rescaling of map from 1 to 2, asked for by oscar' },
    { ...event, kind: 'savepoint', text: 'savepoint' },
    { ...event, kind: 'autoscaler', text: 'autoscaler: map from 2 to 1' },
  ];
  answers.set('/timeline', { begin: 0, now: 9_000, is_cut: false, states: [], runs: [], events });
  show('RUNNING', 'operator', 1);
  fireEvent.click(button('More subtasks of map'));
  const earlier = within(await screen.findByRole('region', { name: 'Earlier rescales' }));
  const told = earlier.getAllByRole('listitem').map(({ textContent }) => textContent);
  expect(told).toEqual([
    expect.stringMatching(/, 4\ss autoscaler: map from 2 to 1$/),
    expect.stringMatching(/, 4\ss rescaling of map from 1 to 2, asked for by oscar$/),
  ]);
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

test('an emptied parallelism rescales nothing', async () => {
  show('RUNNING', 'operator', 1);
  fireEvent.click(button('More subtasks of map'));
  const dialog = within(await screen.findByRole('dialog', { name: 'Rescale this job' }));
  const rescale = dialog.getByRole<HTMLButtonElement>('button', { name: 'Rescale' });
  expect(rescale.disabled).toBe(false);
  fireEvent.change(dialog.getByRole('textbox', { name: 'Parallelism' }), { target: { value: '' } });
  expect(rescale.disabled).toBe(true);
});

test('a number that is no parallelism is said to be none, and rescales nothing', async () => {
  show('RUNNING', 'operator', 1);
  fireEvent.click(button('More subtasks of map'));
  const dialog = within(await screen.findByRole('dialog', { name: 'Rescale this job' }));
  const rescale = dialog.getByRole<HTMLButtonElement>('button', { name: 'Rescale' });
  for (const wrong of ['1.5', '0', '99999999999999999999']) {
    fireEvent.change(dialog.getByRole('textbox', { name: 'Parallelism' }), { target: { value: wrong } });
    expect(dialog.getByText('A whole number, 1 to 32768')).toBeDefined();
    expect(rescale.disabled).toBe(true);
  }
  fireEvent.change(dialog.getByRole('textbox', { name: 'Parallelism' }), { target: { value: '3' } });
  expect(rescale.disabled).toBe(false);
  fireEvent.change(dialog.getByRole('textbox', { name: 'Parallelism of map' }), { target: { value: '2.5' } });
  expect(dialog.getByText(/^A whole number, 1 to \d+$/)).toBeDefined();
  expect(rescale.disabled).toBe(true);
});

test('nobody rescales a vertex of a job that does not run, and no viewer does', () => {
  show('CREATED');
  expect(screen.queryByRole('button', { name: /subtasks of map/ })).toBeNull();
  cleanup();
  show('RUNNING', 'viewer');
  expect(screen.queryByRole('button', { name: /subtasks of map/ })).toBeNull();
});

const DRAWN = { pipeline: 'p1', name: 'Delays', version: 3, deployment: 'd', operators: {}, outputs: {} };

function isDrawn(): void {
  answers.set(`/pipelines/jobs/${'a'.repeat(32)}`, { drawn: DRAWN });
  answers.set('/pipelines/p1/versions/3', { number: 3, document: { name: 'Delays', nodes: [], edges: [] } });
  answers.set('/pipelines', {
    pipelines: [
      { id: 'p1', name: 'Delays' },
      { id: 'p2', name: 'Delays copy' },
    ],
  });
}

test('the version that a job was drawn as is cloned to the editor', async () => {
  isDrawn();
  show('RUNNING', 'developer');
  fireEvent.click(button('Actions'));
  fireEvent.click(await item('Clone to the editor'));
  await waitFor(() => expect(document.querySelector('output')?.textContent).toBe('/pipelines/made/edit'));
  expect(sent).toEqual([{ document: { name: 'Delays copy 2', nodes: [], edges: [] } }]);
});

test('an ended job is cloned, too', async () => {
  isDrawn();
  show('FAILED', 'developer');
  fireEvent.click(await screen.findByRole('button', { name: 'Clone to the editor' }));
  await waitFor(() => expect(sent).toHaveLength(1));
});

test('a job of a program has nothing to clone, and an operator may not', async () => {
  show('RUNNING', 'developer');
  await waitFor(() => expect(asked.some((each) => each.includes('/pipelines/jobs/'))).toBe(true));
  fireEvent.click(button('Actions'));
  await item('Rescale');
  expect(screen.queryByRole('menuitem', { name: 'Clone to the editor' })).toBeNull();
  cleanup();
  isDrawn();
  show('RUNNING', 'operator');
  fireEvent.click(button('Actions'));
  expect((await item('Clone to the editor')).disabled).toBe(true);
});

const POINT = {
  kind: 'savepoint',
  location: 'file:///s/savepoint-9',
  checkpoint_id: 9,
  timestamp: 9_000,
  size: null,
  deleted_by: [] as string[],
};
const FINE = { deleted_by: [] as string[], problem: '' };
/** A checkpoint; by default it ends with its job. */
const checkpoint = (id: number, deletedBy = ['stop', 'cancel']) => ({
  ...POINT,
  kind: 'checkpoint',
  location: `file:///c/chk-${id}`,
  checkpoint_id: id,
  timestamp: id * 1_000,
  deleted_by: deletedBy,
});
const checkOf = (location: string) => `/restore-points/check?location=${encodeURIComponent(location)}`;
const shownAddress = () => document.querySelector('output')?.textContent;

async function restoring(state: JobState) {
  show(state, 'developer');
  fireEvent.click(button('Actions'));
  fireEvent.click(await item('Restore from a snapshot'));
  const dialog = within(await screen.findByRole('dialog', { name: 'Restore this job' }));
  await dialog.findByLabelText('Another snapshot');
  return dialog;
}
const PROGRAM = { id: 'jar', name: 'a.py', args: [], entry: null, parallelism: null, configuration: {}, hidden: [] };

test('a job of a program that runs is stopped first, then its program is run from what was chosen', async () => {
  answers.set('/restore-points', { program: PROGRAM, points: [POINT] });
  answers.set('/status', { status: 'FINISHED' });
  answers.set('/operations/asked', { state: 'COMPLETED', result: { location: 'file:///s/savepoint-10' } });
  answers.set(checkOf(POINT.location), FINE);
  const dialog = await restoring('RUNNING');
  fireEvent.click(dialog.getByLabelText(/^Savepoint 9,/));
  expect(changes()).toEqual([]);
  fireEvent.click(dialog.getByRole('button', { name: 'Stop job and continue' }));
  await waitFor(() =>
    expect(document.querySelector('output')?.textContent).toBe(
      `/submit?program=jar&again=${'a'.repeat(32)}&savepoint=file:///s/savepoint-9`,
    ),
  );
  expect(changes()).toEqual([expect.stringMatching(/^POST .*\/stop$/)]);
  expect(sent).toMatchObject([{ drain: false, formatType: 'CANONICAL' }]);
});

test('what runs now goes on from the savepoint of its stop, and checkpoints that end with the job are not offered', async () => {
  answers.set('/restore-points', { program: PROGRAM, points: [checkpoint(141), POINT] });
  answers.set('/status', { status: 'FINISHED' });
  answers.set('/operations/asked', { state: 'COMPLETED', result: { location: 'file:///s/savepoint-142' } });
  const dialog = await restoring('RUNNING');
  expect(dialog.getByLabelText<HTMLInputElement>('What runs now: the savepoint of the stop').checked).toBe(true);
  expect(dialog.queryByLabelText(/^Checkpoint 141/)).toBeNull();
  expect(dialog.getByText('Checkpoints are not offered: they are deleted when this job is stopped.')).toBeTruthy();
  fireEvent.click(dialog.getByRole('button', { name: 'Stop job and continue' }));
  await waitFor(() => expect(shownAddress()).toContain('&savepoint=file:///s/savepoint-142'));
});

test('nothing is chosen where a cancellation deletes all that there is', async () => {
  answers.set('/restore-points', { program: PROGRAM, points: [checkpoint(141)] });
  answers.set('/status', { status: 'CANCELED' });
  const dialog = await restoring('RUNNING');
  fireEvent.click(dialog.getByLabelText('Cancel'));
  const go = dialog.getByRole<HTMLButtonElement>('button', { name: 'Cancel job and continue' });
  expect(go.disabled).toBe(true);
  expect(dialog.getByText('Snapshots that are deleted when this job is cancelled are not offered.')).toBeTruthy();
  fireEvent.click(dialog.getByLabelText('No state'));
  fireEvent.click(go);
  await waitFor(() => expect(shownAddress()).toBe(`/submit?program=jar&again=${'a'.repeat(32)}`));
});

test.each([
  [{ ...FINE, deleted_by: ['stop', 'cancel'] }, 'This snapshot is deleted with the job: choose another one.'],
  [{ ...FINE, problem: 'nothing exists at this location' }, 'nothing exists at this location'],
])('no job is ended for a path that could not be restored afterwards: %j', async (answer, told) => {
  answers.set('/restore-points', { program: PROGRAM, points: [checkpoint(141)] });
  answers.set(checkOf('file:///c/chk-141'), answer);
  const dialog = await restoring('RUNNING');
  fireEvent.click(dialog.getByLabelText('Cancel'));
  fireEvent.click(dialog.getByLabelText('Another snapshot'));
  fireEvent.change(dialog.getByLabelText('Path of the snapshot'), { target: { value: 'file:///c/chk-141' } });
  fireEvent.blur(dialog.getByLabelText('Path of the snapshot'));
  fireEvent.click(dialog.getByRole('button', { name: 'Cancel job and continue' }));
  expect((await dialog.findByRole('alert')).textContent).toBe(told);
  expect(changes()).toEqual([]);
});

test('the newest retained checkpoint takes the place of one that was replaced before the job was cancelled', async () => {
  answers.set('/restore-points', { program: PROGRAM, points: [checkpoint(141, ['stop'])] });
  answers.set(checkOf('file:///c/chk-141'), FINE);
  answers.set('/status', { status: 'CANCELED' });
  const dialog = await restoring('RUNNING');
  fireEvent.click(dialog.getByLabelText('Cancel'));
  expect(dialog.getByLabelText<HTMLInputElement>(/^Checkpoint 141,/).checked).toBe(true);
  onChange = () => {
    answers.set(checkOf('file:///c/chk-141'), { ...FINE, problem: 'nothing exists at this location' });
    answers.set('/restore-points', { program: PROGRAM, points: [checkpoint(142, [])] });
  };
  fireEvent.click(dialog.getByRole('button', { name: 'Cancel job and continue' }));
  await waitFor(() => expect(shownAddress()).toContain('&savepoint=file:///c/chk-142'));
  expect(await screen.findByText('The newest snapshot takes the place of the chosen one')).toBeTruthy();
});

test('the snapshots are renewed while the dialog is open', async () => {
  answers.set('/restore-points', { program: PROGRAM, points: [checkpoint(141, ['stop'])] });
  const dialog = await restoring('RUNNING');
  fireEvent.click(dialog.getByLabelText('Cancel'));
  fireEvent.click(dialog.getByLabelText(/^Checkpoint 141,/));
  answers.set('/restore-points', { program: PROGRAM, points: [checkpoint(145, ['stop'])] });
  const newest = await dialog.findByLabelText<HTMLInputElement>(/^Checkpoint 145,/, {}, { timeout: 5_000 });
  expect(newest.checked).toBe(true);
  expect(dialog.queryByLabelText(/^Checkpoint 141,/)).toBeNull();
});

test('one that does not run can only be cancelled before, and may start from a path', async () => {
  answers.set('/restore-points', { program: PROGRAM, points: [] });
  answers.set('/status', { status: 'CANCELED' });
  answers.set(checkOf('file:///elsewhere'), FINE);
  show('RESTARTING', 'developer');
  fireEvent.click(button('Actions'));
  fireEvent.click(await item('Restore from a snapshot'));
  const dialog = within(await screen.findByRole('dialog', { name: 'Restore this job' }));
  expect((await dialog.findByLabelText<HTMLInputElement>('Stop with savepoint')).disabled).toBe(true);
  fireEvent.click(dialog.getByLabelText('Another snapshot'));
  const go = dialog.getByRole<HTMLButtonElement>('button', { name: 'Cancel job and continue' });
  expect(go.disabled).toBe(true);
  fireEvent.change(dialog.getByLabelText('Path of the snapshot'), { target: { value: 'file:///elsewhere' } });
  fireEvent.blur(dialog.getByLabelText('Path of the snapshot'));
  fireEvent.click(go);
  await waitFor(() => expect(document.querySelector('output')?.textContent).toContain('savepoint=file:///elsewhere'));
  expect(changes()).toEqual([expect.stringMatching(/^PATCH .*mode=cancel$/)]);
});

test('one that was drawn is restored by a deployment, which stops it only after its state was looked at', async () => {
  isDrawn();
  answers.set('/restore-points', { program: null, points: [POINT] });
  show('RUNNING', 'operator');
  await waitFor(() => expect(asked.some((each) => each.includes('/pipelines/jobs/'))).toBe(true));
  fireEvent.click(button('Actions'));
  await waitFor(async () => expect((await item('Restore from a snapshot')).disabled).toBe(false));
  fireEvent.click(await item('Restore from a snapshot'));
  const dialog = within(await screen.findByRole('dialog', { name: 'Restore this job' }));
  // which the editor keeps (`from=keep`), unless
  expect((await dialog.findByLabelText<HTMLInputElement>('What runs now')).checked).toBe(true);
  fireEvent.click(dialog.getByLabelText(/^Savepoint 9,/));
  fireEvent.click(dialog.getByRole('button', { name: 'Continue' }));
  await waitFor(() =>
    expect(document.querySelector('output')?.textContent).toBe(
      '/pipelines/p1/edit?deploy=3&from=file:///s/savepoint-9',
    ),
  );
  expect(changes()).toEqual([]);
});

function told(state: Switch['state'], more: Partial<Switch> = {}): { switch: Switch } {
  const found: Switch = {
    id: 'made',
    execution: 'micro-batch',
    state,
    state_times: {},
    message: '',
    savepoint: null,
    old_job_id: 'a'.repeat(32),
    job_id: null,
    goes_on_as: null,
    created_at: 0,
    created_by: 'alice',
  };
  return { switch: { ...found, ...more } };
}

async function askForSwitch() {
  fireEvent.click(button('Actions'));
  fireEvent.click(await item('Switch execution'));
  const dialog = await screen.findByRole('dialog', { name: 'Switch the execution of this job?' });
  return { dialog, go: within(dialog).getByRole<HTMLButtonElement>('button', { name: 'Switch' }) };
}

const shownPath = () => document.querySelector('output')?.textContent;

test('a job is switched to micro-batches by one request, and its page gives way to that of the new job', async () => {
  answers.set('/switch', told('STOPPING'));
  show('RUNNING', 'developer');
  const { dialog, go } = await askForSwitch();
  expect(dialog.textContent).toContain('goes on in micro-batches');
  expect(changes()).toEqual([]);
  fireEvent.click(go);
  fireEvent.click(go);
  await waitFor(() => expect(dialog.textContent).toContain('being stopped with a savepoint'), { timeout: 5_000 });
  expect(changes()).toEqual([expect.stringMatching(/^POST .*\/switch$/)]);
  expect(sent).toEqual([{ execution: 'micro-batch', key: expect.stringMatching(/^[0-9a-f]{32}$/) as string }]);
  expect(shownPath()).toBe('/');
  answers.set('/switch', told('SUBMITTED', { job_id: 'b'.repeat(32), goes_on_as: 'b'.repeat(32) }));
  await waitFor(() => expect(shownPath()).toBe(`/jobs/${'b'.repeat(32)}`), { timeout: 5_000 });
}, 20_000);

test('a switch that has failed says why, and is asked for anew', async () => {
  answers.set('/switch', told('ROLLED_BACK', { message: 'the new job has failed: no such table', goes_on_as: 'c' }));
  show('RUNNING', 'developer');
  const { dialog, go } = await askForSwitch();
  fireEvent.click(go);
  const problem = await within(dialog).findByRole('alert');
  expect(problem.textContent).toBe('the new job has failed: no such table: the job goes on as before.');
  expect(shownPath()).toBe('/');
  await waitFor(() => expect(go.dataset.loading).toBeUndefined());
  fireEvent.click(go);
  await waitFor(() => expect(sent).toHaveLength(2));
  const [first, second] = sent as { key: string }[];
  expect(first?.key).not.toBe(second?.key);
});
