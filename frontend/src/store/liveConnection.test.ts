import { beforeEach, expect, test } from 'vitest';

import { LiveConnection } from './liveConnection';
import { ScriptedSocket } from './scriptedSocket';

let now: number;
let socket: ScriptedSocket;
let connection: LiveConnection;
const subscribe = { type: 'subscribe', topic: 'cluster' };
const noop = () => undefined;

beforeEach(() => {
  now = 1_000;
  socket = new ScriptedSocket();
  connection = new LiveConnection(
    () => socket,
    () => now,
  );
  connection.start();
});

test('a topic asked for before the socket is open is subscribed when it opens', () => {
  connection.subscribe('cluster', noop);
  expect(socket.sent).toEqual([]);
  socket.onopen?.();
  expect(socket.sent).toEqual([subscribe]);
});

test('two readers share one subscription, and the last one ends it', () => {
  socket.onopen?.();
  const leave = connection.subscribe('cluster', noop);
  const leaveToo = connection.subscribe('cluster', () => undefined);
  leave();
  expect(socket.sent).toEqual([subscribe]);
  leaveToo();
  expect(socket.sent).toEqual([subscribe, { type: 'unsubscribe', topic: 'cluster' }]);
});

test('documents arrive, a gap asks for a snapshot', () => {
  socket.onopen?.();
  let calls = 0;
  connection.subscribe('cluster', () => (calls += 1));
  socket.says({ type: 'snapshot', topic: 'cluster', version: 1, data: { a: 1 } });
  socket.says({ type: 'change', topic: 'cluster', from: 1, version: 2, patch: { a: 2 } });
  expect(connection.topic('cluster').data).toEqual({ a: 2 });
  expect(calls).toBe(2);
  socket.says({ type: 'change', topic: 'cluster', from: 3, version: 4, patch: { a: 4 } });
  expect(socket.sent).toEqual([subscribe, subscribe]);
});

test('a lost socket keeps the document, takes REST ones, and starts again from a snapshot', () => {
  socket.onopen?.();
  connection.subscribe('cluster', noop);
  socket.says({ type: 'snapshot', topic: 'cluster', version: 1, data: { a: 1 } });
  socket.onclose?.();
  expect(connection.liveness.status).toBe('closed');
  expect(connection.topic('cluster').data).toEqual({ a: 1 });
  now = 3_000;
  connection.offer('cluster', { a: 3 });
  expect(connection.topic('cluster').data).toEqual({ a: 3 });
  expect(connection.liveness.lastDataAt).toBe(3_000);
  socket.onopen?.();
  socket.says({ type: 'snapshot', topic: 'cluster', version: 9, data: { a: 9 } });
  connection.offer('cluster', { a: 0 });
  expect(connection.topic('cluster').data).toEqual({ a: 9 });
});

test('an open socket that stays silent is opened anew, once per silence', () => {
  socket.onopen?.();
  now += 6_000;
  connection.checkSilence();
  expect(socket.reconnects).toBe(0);
  now += 1;
  connection.checkSilence();
  connection.checkSilence();
  expect(socket.reconnects).toBe(1);
});

test('a document that the server calls old makes the page stale until it is fresh again or nobody shows it', () => {
  const old = { age_ms: 4_000, source: 'live', is_stale: true, reason: 'The JobManager is silent.' };
  const fresh = { age_ms: 100, source: 'live', is_stale: false, reason: '' };
  socket.onopen?.();
  const leave = connection.subscribe('cluster', noop);
  socket.says({ type: 'snapshot', topic: 'cluster', version: 1, data: {}, freshness: fresh });
  expect(connection.liveness.staleData).toBeNull();
  now = 9_000;
  socket.says({ type: 'tick', now: 9_000, freshness: { cluster: old } });
  expect(connection.liveness.staleData).toEqual({ since: 5_000, reason: 'The JobManager is silent.' });
  socket.says({ type: 'change', topic: 'cluster', from: 1, version: 2, patch: {}, freshness: fresh });
  expect(connection.liveness.staleData).toBeNull();
  connection.offer('cluster', { freshness: old });
  socket.onclose?.();
  connection.offer('cluster', { freshness: old });
  expect(connection.liveness.staleData?.since).toBe(5_000);
  leave();
  expect(connection.liveness.staleData).toBeNull();
});

test('ticks set the clock', () => {
  socket.onopen?.();
  socket.says({ type: 'tick', now: 5_000, freshness: {} });
  expect(connection.clockOffset).toBe(4_000);
  socket.onmessage?.('no json');
  expect(connection.liveness.status).toBe('open');
});

test('after stop nothing is heard any more', () => {
  socket.onopen?.();
  connection.stop();
  expect(socket.closed).toBe(true);
  expect(socket.onmessage).toBeNull();
});
