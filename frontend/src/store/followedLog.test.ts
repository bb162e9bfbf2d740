import { beforeEach, expect, test } from 'vitest';

import { type LogFollower, followLog } from './followedLog';
import { LiveConnection } from './liveConnection';
import { ScriptedSocket } from './scriptedSocket';

let socket: ScriptedSocket;
let connection: LiveConnection;
let heard: unknown[];
const follower: LogFollower = {
  onPart: (part, cursor) => heard.push([part.entries.length, cursor]),
  onEnd: (message) => heard.push(message),
};

beforeEach(() => {
  heard = [];
  socket = new ScriptedSocket();
  connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
});

/** Follows from cursor "a" on; returns the name that the server was told, and what ends it. */
function follow(): readonly [string, () => void] {
  const leave = followLog(connection, 'j', { level: 'WARN' }, 'a', follower);
  return [(socket.sent.at(-1) as { id: string }).id, leave];
}

test('a log is followed part by part, goes on at its cursor after a reconnection, and ends when it is left', () => {
  const [id, leave] = follow();
  const request = (cursor: string) => ({ type: 'follow', id, job: 'j', query: { level: 'WARN', cursor } });
  expect(socket.sent).toEqual([request('a')]);
  socket.says({ type: 'log', id, part: { entries: [{}, {}], cursor: 'b' } });
  socket.says({ type: 'log', id: 'another', part: { entries: [], cursor: 'x' } });
  expect(heard).toEqual([[2, 'a']]);
  expect(socket.sent.at(-1)).toEqual({ type: 'took', id });
  socket.onclose?.();
  socket.onopen?.();
  expect(socket.sent.at(-1)).toEqual(request('b'));
  leave();
  expect(socket.sent.slice(-2)).toEqual([request('b'), { type: 'unfollow', id }]);
  socket.says({ type: 'log', id, part: { entries: [{}], cursor: 'c' } });
  expect(heard).toHaveLength(1);
});

test('a log that the server ends is not asked for again', () => {
  const [id] = follow();
  socket.says({ type: 'log-ended', id, message: 'The job does not exist.' });
  expect(heard).toEqual(['The job does not exist.']);
  const before = socket.sent.length;
  socket.onopen?.();
  expect(socket.sent.slice(before)).toEqual([]);
});

test('two logs are followed at once', () => {
  const [first] = follow();
  const [second] = follow();
  expect(first).not.toBe(second);
  socket.says({ type: 'log', id: second, part: { entries: [{}], cursor: 'b' } });
  expect(heard).toEqual([[1, 'a']]);
});
