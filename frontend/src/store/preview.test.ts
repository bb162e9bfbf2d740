import { expect, test } from 'vitest';

import { ApiError } from '../api/client';
import type { PreviewAnswer } from '../gen/contract';
import { line } from '../model/pipeline/testPipelines';
import { createPreview } from './preview';

function answer(id: string, more: Partial<PreviewAnswer> = {}): PreviewAnswer {
  return {
    id,
    version: 1,
    semantic_hash: '',
    state: 'running',
    ports: {},
    problems: [],
    pinned: [],
    end: null,
    ...more,
  };
}

/** A server whose answers the test gives. */
function scripted(stopped: () => Promise<void> = () => Promise.resolve()) {
  const asked: string[] = [];
  const waiting: ((id: string | Error) => void)[] = [];
  let now = 1000;
  const store = createPreview(
    {
      start: (_, rows) => {
        asked.push(`start ${rows}`);
        return new Promise((resolve, reject) => {
          waiting.push((id) => (typeof id === 'string' ? resolve(answer(id)) : reject(id)));
        });
      },
      stop: (id) => {
        asked.push(`stop ${id}`);
        return stopped();
      },
    },
    () => now,
  );
  const reply = async (id: string | Error) => {
    waiting.shift()?.(id);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { store, asked, reply, pass: (ms: number) => (now += ms) };
}

const ROWS = {
  n1: { out: { node: 'n1', port: 'out', rows: 1, sample: [], times: [], watermarks: [], columns: null } },
};
const ports = ROWS as unknown as PreviewAnswer['ports'];

test('a double click starts one preview, of the document that was there', async () => {
  const { store, asked, reply } = scripted();
  const document = line();
  store.getState().setRows(100);
  void store.getState().start(document);
  void store.getState().start(line());
  await reply('a');
  expect(asked).toEqual(['start 100']);
  expect(store.getState().previewed).toBe(document);
  expect(store.getState().shown?.id).toBe('a');
});

test('documents of a preview that was replaced, and earlier ones, are ignored', async () => {
  const { store, reply, pass } = scripted();
  void store.getState().start(line());
  await reply('a');
  pass(400);
  store.getState().take(answer('a', { version: 3, ports }));
  store.getState().take(answer('a', { version: 2 }));
  store.getState().take(answer('other', { version: 9 }));
  const { shown, startedAt, firstRowsAt } = store.getState();
  expect(shown?.version).toBe(3);
  expect((firstRowsAt ?? 0) - (startedAt ?? 0)).toBe(400);
  // found lost by a reader: no new version
  store.getState().take(answer('a', { version: 3, state: 'lost', ports }));
  expect(store.getState().shown?.state).toBe('lost');
});

test('a stop is asked for once, and over when the preview has ended', async () => {
  const { store, asked, reply } = scripted();
  await store.getState().stop();
  void store.getState().start(line());
  await reply('a');
  await Promise.all([store.getState().stop(), store.getState().stop()]);
  expect(asked).toEqual(['start 10000', 'stop a']);
  expect(store.getState().isStopping).toBe(true);
  store.getState().take(answer('a', { version: 2, state: 'stopped' }));
  expect(store.getState().isStopping).toBe(false);
});

test('a refused start says why, and keeps what was shown', async () => {
  const { store, reply } = scripted();
  void store.getState().start(line());
  await reply('a');
  store.getState().take(answer('a', { version: 2, state: 'finished' }));
  void store.getState().start(line());
  await reply(new Error('Too many previews are running'));
  expect(store.getState().error).toBe('Too many previews are running');
  expect(store.getState().shown?.id).toBe('a');
  expect(store.getState().isStarting).toBe(false);
});

test('a preview that the server has forgotten is lost, with the rows that it has shown, and another one starts', async () => {
  const { store, reply } = scripted();
  void store.getState().start(line());
  await reply('a');
  store.getState().take(answer('a', { version: 2, ports }));
  store.getState().lose('another');
  expect(store.getState().shown?.state).toBe('running');
  store.getState().lose('a');
  expect(store.getState().shown).toMatchObject({ state: 'lost', ports });
  void store.getState().start(line());
  await reply('b');
  expect(store.getState().shown).toMatchObject({ id: 'b', state: 'running' });
});

test('a preview that has ended stays as it ended, though it is forgotten', async () => {
  const { store, reply } = scripted();
  void store.getState().start(line());
  await reply('a');
  store.getState().take(answer('a', { version: 2, state: 'finished' }));
  store.getState().lose('a');
  expect(store.getState().shown?.state).toBe('finished');
});

test('a stop of a forgotten preview finds it lost; another failure is told', async () => {
  let failure: Error = new ApiError(503, 'Redis does not answer');
  const { store, reply } = scripted(() => Promise.reject(failure));
  void store.getState().start(line());
  await reply('a');
  await store.getState().stop();
  expect(store.getState()).toMatchObject({ shown: { state: 'running' }, error: 'Redis does not answer' });
  failure = new ApiError(404, 'There is no such preview');
  await store.getState().stop();
  expect(store.getState()).toMatchObject({ shown: { state: 'lost' }, isStopping: false, error: null });
});
