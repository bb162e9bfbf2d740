import { describe, expect, test } from 'vitest';

import type { Freshness, ServerMessage, Topic } from '../gen/contract';
import { EMPTY_TOPIC, disconnected, offered, receive } from './liveTopic';

const topic: Topic = 'cluster';
const freshness: Freshness = { age_ms: 0, source: 'live', is_stale: false, reason: '' };
const snapshot = (version: number, data: unknown) => ({ type: 'snapshot', topic, version, freshness, data }) as const;
const change = (from: number, version: number, patch: unknown) =>
  ({ type: 'change', topic, from, version, freshness, patch }) satisfies ServerMessage;

describe('a topic', () => {
  const at5 = receive(EMPTY_TOPIC, snapshot(5, { a: 1, b: 1 })).state;

  test('takes a snapshot and the change that follows it', () => {
    const step = receive(at5, change(5, 6, { b: 2 }));
    expect(step).toEqual({ state: { ...at5, data: { a: 1, b: 2 }, version: 6 }, resubscribe: false });
  });

  test('asks again once when a version is missing, and keeps showing what it had', () => {
    const gap = receive(at5, change(7, 8, { b: 3 }));
    expect(gap.resubscribe).toBe(true);
    expect(gap.state.data).toEqual({ a: 1, b: 1 });
    const next = receive(gap.state, change(8, 9, { b: 4 }));
    expect(next.resubscribe).toBe(false);
    expect(next.state.data).toEqual({ a: 1, b: 1 });
    expect(receive(next.state, snapshot(9, { a: 9 })).state).toMatchObject({ data: { a: 9 }, awaiting: false });
  });

  test('ignores a change that it has already seen', () => {
    expect(receive(at5, change(3, 4, { b: 0 })).state).toBe(at5);
    expect(receive(at5, change(4, 5, { b: 0 })).state).toBe(at5);
  });

  test('ignores changes before its first snapshot', () => {
    expect(receive(EMPTY_TOPIC, change(0, 1, {})).state).toBe(EMPTY_TOPIC);
  });

  test('takes REST documents only while the socket is down', () => {
    expect(offered(at5, { a: 7 })).toBe(at5);
    const down = disconnected(at5);
    expect(down.data).toEqual({ a: 1, b: 1 });
    expect(offered(down, { a: 7 }).data).toEqual({ a: 7 });
  });

  test('a snapshot of a lower version wins: the server was restarted', () => {
    expect(receive(disconnected(at5), snapshot(1, { a: 0 })).state).toMatchObject({ version: 1, data: { a: 0 } });
  });

  test('remembers that its subject is gone, and what the server refused', () => {
    expect(receive(at5, { type: 'gone', topic }).state).toMatchObject({ gone: true, data: { a: 1, b: 1 } });
    expect(receive(EMPTY_TOPIC, { type: 'error', topic, message: 'no' }).state.error).toBe('no');
  });
});
