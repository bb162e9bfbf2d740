// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { RouterProvider, createMemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type {
  KeyField,
  Role,
  StateContents,
  StateKeys,
  StateLookup,
  StateOperator,
  StateValue,
} from '../../gen/contract';
import { SESSION_KEY } from '../../hooks/useSession';
import { StateTab } from './StateTab';

const SNAPSHOT = {
  kind: 'checkpoint',
  checkpoint_id: 812,
  timestamp: 1_700_000_000_000,
  location: 'file:///c',
} as const;

function operator(fields: readonly KeyField[], more: Partial<StateOperator> = {}): StateOperator {
  const plain = { is_namespaced: false, has_ttl: false, is_pickled: false };
  return {
    id: 'op',
    uid: 'count',
    name: 'count',
    parallelism: 2,
    max_parallelism: 128,
    key_type: fields.length === 0 ? '' : 'string',
    key_fields: [...fields],
    window_type: '',
    formats: ['rocksdb'],
    size: 1_000,
    has_timers: true,
    states: [
      { name: 'count', kind: 'value', type: 'long', ...plain },
      { name: 'names', kind: 'map', type: 'map<string, long>', ...plain, has_ttl: true },
      { name: 'raw', kind: 'value', type: 'pickle', ...plain, is_pickled: true },
    ],
    ...more,
  };
}

function value(of: unknown, more: Partial<StateValue> = {}): StateValue {
  return { namespace: null, value: of, touched: null, is_decoded: true, num_items: null, is_cut: false, ...more };
}

function found(values: StateValue[], more: Partial<StateLookup> = {}): StateLookup {
  return {
    snapshot: SNAPSHOT,
    key: 'a',
    encoded_key: '06',
    key_group: 7,
    subtask: 1,
    values,
    num_values: values.length,
    timers: [],
    num_timers: 0,
    read_bytes: 4_096,
    ...more,
  };
}

/** Plays the routes of the state browser. */
let contents: StateContents;
let answer: { status: number; body: unknown };
let asked: { url: string; body: unknown }[];
let keys: StateKeys['keys'];

function server(url: string, init: RequestInit = {}): Promise<Response> {
  if (url.includes('/restore-points')) {
    numLists += 1;
    return answered(200, { program: null, points });
  }
  if (init.method !== 'POST') return answered(200, contents);
  asked.push({ url, body: JSON.parse(init.body as string) as unknown });
  if (url.endsWith('/keys')) {
    return answered(200, { snapshot: SNAPSHOT, keys, is_all: false });
  }
  if (url.endsWith('/export')) {
    return answered(200, { snapshot: SNAPSHOT, csv: 'key\r\n', num_rows: 7, is_cut: true });
  }
  return answered(answer.status, answer.body);
}

function answered(status: number, body: unknown): Promise<Response> {
  return Promise.resolve(new Response(JSON.stringify(body), { status }));
}

let points: unknown[] = [];
/** How often the snapshots were listed. */
let numLists = 0;
const POINT = {
  kind: 'savepoint',
  location: 'file:///s/9',
  checkpoint_id: 9,
  timestamp: 9_000,
  size: 1,
  deleted_by: [],
};

beforeEach(() => {
  points = [];
  numLists = 0;
  contents = { snapshot: SNAPSHOT, operators: [operator([{ name: '', type: 'string' }])] };
  answer = { status: 200, body: found([value(42)]) };
  asked = [];
  keys = [{ key: ['a', 1], encoded_key: '1002' }];
  vi.stubGlobal('fetch', server);
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function show(role: Role = 'operator', address = '/') {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  client.setQueryData(SESSION_KEY, { user: { username: 'olga', role }, submission: '' });
  const router = createMemoryRouter([{ path: '*', element: <StateTab jobId="job" /> }], { initialEntries: [address] });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return router;
}

async function type(label: string, text: string) {
  fireEvent.change(await screen.findByLabelText(label, { selector: 'input' }), { target: { value: text } });
}

function submit() {
  fireEvent.submit(screen.getByLabelText('Key', { selector: 'form' }));
}

test('Refresh renews the list of snapshots, too', async () => {
  show();
  const refresh = await screen.findByRole('button', { name: 'Refresh' });
  await waitFor(() => expect(numLists).toBe(1));
  fireEvent.click(refresh);
  await waitFor(() => expect(numLists).toBe(2));
});

test('where no checkpoint is kept, a savepoint can be chosen', async () => {
  contents = { snapshot: null, operators: [] };
  points = [POINT];
  show();
  expect(await screen.findByText('None is kept. Choose a savepoint above.')).toBeTruthy();
});

test('a key is looked up, and its value shown with the time of the checkpoint', async () => {
  show();
  await type('Key', 'a');
  submit();
  const panel = await screen.findByLabelText('count of a');
  expect(panel.textContent).toContain('checkpoint 812');
  expect(panel.textContent).toContain('42');
  expect(asked[0]?.body).toEqual({ snapshot: '', operator: 'op', state: 'count', key: 'a' });
});

test('a key of several fields is a form of them, and a number that is none is not sent', async () => {
  const fields = [
    { name: 'city', type: 'string' },
    { name: 'n', type: 'long' },
  ];
  contents = { snapshot: SNAPSHOT, operators: [operator(fields)] };
  show();
  await type('Key: city', 'Ulm');
  await type('Key: n', 'x');
  submit();
  expect(await screen.findByText('Must be a whole number')).toBeTruthy();
  expect(asked).toEqual([]);
  await type('Key: n', '9007199254740993');
  submit();
  await waitFor(() => expect(asked).toHaveLength(1));
  expect(asked[0]?.body).toMatchObject({ key: ['Ulm', '9007199254740993'] });
});

test('a key of no declared type is sent with the chosen one', async () => {
  contents = { snapshot: SNAPSHOT, operators: [operator([])] };
  show();
  await type('Key', 'a');
  submit();
  await waitFor(() => expect(asked[0]?.body).toMatchObject({ key: 'a', key_type: 'string' }));
});

test('some keys can be listed, and one of them looked up as it is', async () => {
  show();
  fireEvent.click(await screen.findByText('Show Some Keys'));
  fireEvent.click(await screen.findByText('(a, 1)'));
  await waitFor(() => expect(asked[1]?.body).toMatchObject({ encoded_key: '1002' }));
  expect(asked[0]?.url).toContain('/state/keys');
});

test('windows, timers and what is left out are told', async () => {
  contents = {
    snapshot: SNAPSHOT,
    operators: [operator([{ name: '', type: 'string' }], { window_type: 'TimeWindow of event time' })],
  };
  const timer = { service: 'windows', is_event_time: true, timestamp: 1_700_000_060_000, namespace: null };
  const values = [value('x'.repeat(10), { namespace: [1_700_000_000_000, 1_700_000_060_000], is_cut: true })];
  answer = { status: 200, body: found(values, { num_values: 300, timers: [timer], num_timers: 1 }) };
  show();
  await type('Key', 'a');
  submit();
  const panel = await screen.findByLabelText('count of a');
  expect(screen.getByText(/2023.* – .*2023/)).toBeTruthy();
  expect(screen.getByText('Timers of the key', { selector: 'caption' }).parentElement?.textContent).toContain(
    'event time',
  );
  expect(panel.textContent).toContain('1 of 300 windows are shown.');
  expect(panel.textContent).toContain('parts are left out');
});

test('times before 1970, and the end of all time, are told', async () => {
  contents = {
    snapshot: SNAPSHOT,
    operators: [operator([{ name: '', type: 'string' }], { window_type: 'TimeWindow of event time' })],
  };
  const timer = { service: 'windows', is_event_time: true, timestamp: 2 ** 63, namespace: null };
  const values = [value(1, { namespace: [-14_400_000_000, -7_200_000_000] })];
  answer = { status: 200, body: found(values, { timers: [timer, { ...timer, timestamp: -7_200_000_001 }] }) };
  show();
  await type('Key', 'a');
  submit();
  const panel = await screen.findByLabelText('count of a');
  expect(panel.textContent).toMatch(/1969-07-\d\d .* – 1969-10-\d\d .*end of input.*1969-10-\d\d/);
});

test('a key that is an empty text can be seen, and pressed', async () => {
  answer = { status: 200, body: found([value(42)], { key: '' }) };
  keys = [{ key: '', encoded_key: '06' }];
  show();
  fireEvent.click(await screen.findByText('Show Some Keys'));
  fireEvent.click(await screen.findByRole('button', { name: '""' }));
  expect(await screen.findByLabelText('count of ""')).toBeTruthy();
});

test('what was found is shown neither as of another snapshot nor as another state', async () => {
  const router = show('operator', '/?snapshot=7');
  await screen.findByLabelText('Key', { selector: 'input' });
  await act(() => router.navigate('/'));
  await type('Key', 'a');
  submit();
  expect(await screen.findByLabelText('count of a')).toBeTruthy();
  // as Back does
  await act(() => router.navigate('/?state=op/names'));
  expect(screen.queryByLabelText('names of a')).toBeNull();
  await act(() => router.navigate('/?snapshot=7'));
  expect(screen.queryByLabelText('count of a')).toBeNull();
  await act(() => router.navigate('/'));
  expect(screen.getByLabelText('count of a')).toBeTruthy();
});

test('a key that is not there, and one of another type, are told apart', async () => {
  answer = { status: 200, body: found([]) };
  show();
  await type('Key', 'nobody');
  submit();
  expect((await screen.findByLabelText('count of a')).textContent).toContain('The key has no such state.');
  answer = { status: 400, body: { errors: [{ code: 'invalid', field: 'key', message: 'does not fit LONG' }] } };
  submit();
  expect((await screen.findByRole('alert')).textContent).toContain('does not fit LONG');
});

test('without a completed checkpoint there is nothing to choose', async () => {
  contents = { snapshot: null, operators: [] };
  show();
  expect(await screen.findByText('No completed checkpoint yet')).toBeTruthy();
  expect(screen.queryByLabelText('Key')).toBeNull();
});

test('a viewer sees the states, and cannot look into them', async () => {
  show('viewer');
  const buttons = [await screen.findByText('Look Up'), screen.getByText('Show Some Keys')];
  expect(buttons.map((each) => each.closest('button')?.disabled)).toEqual([true, true]);
});

test('what was found is saved as CSV', async () => {
  const blobs: Blob[] = [];
  vi.spyOn(URL, 'createObjectURL').mockImplementation((blob) => {
    blobs.push(blob as Blob);
    return 'blob:';
  });
  show();
  await type('Key', 'a');
  submit();
  fireEvent.click(await screen.findByRole('button', { name: 'Export CSV' }));
  expect(await screen.findByText('7 rows of checkpoint 812; there is more')).toBeTruthy();
  expect(asked[1]).toEqual({
    url: expect.stringMatching(/\/state\/export$/) as string,
    body: { snapshot: '', operator: 'op', state: 'count', encoded_key: '06' },
  });
  const saved = new Uint8Array((await blobs[0]?.arrayBuffer()) ?? new ArrayBuffer());
  expect(new TextDecoder('utf-8', { ignoreBOM: true }).decode(saved)).toBe('\ufeffkey\r\n');
});

test('keys are exported without naming one', async () => {
  vi.spyOn(URL, 'createObjectURL').mockReturnValue('blob:');
  show();
  fireEvent.click(await screen.findByRole('button', { name: 'Show Some Keys' }));
  fireEvent.click(await screen.findByRole('button', { name: 'Export CSV' }));
  await waitFor(() => expect(asked[1]?.body).toEqual({ snapshot: '', operator: 'op', state: 'count' }));
});

test('a link leads to a state, and names no key', async () => {
  contents = { snapshot: SNAPSHOT, operators: [operator([]), operator([], { id: 'other', name: 'other' })] };
  show('operator', '/?state=other/names');
  await type('Key', 'a');
  submit();
  await waitFor(() => expect(asked[0]?.body).toMatchObject({ operator: 'other', state: 'names', key: 'a' }));
});
