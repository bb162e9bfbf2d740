import { expect, test } from 'vitest';

import type { Freshness } from '../gen/contract';
import { type Liveness, oldest, staleness } from './staleness';

const live: Liveness = { status: 'open', lastDataAt: 10_000, lastFrameAt: 10_000, startedAt: 0, staleData: null };
const since = (liveness: Liveness, now: number) => staleness(liveness, now)?.since;

function freshness(age_ms: number | null, reason = ''): Freshness {
  return { age_ms, source: 'live', is_stale: reason !== '', reason };
}

test('a stream that only ticks is live', () => {
  expect(staleness(live, 11_500)).toBeNull();
  expect(staleness(live, 13_000)).toBeNull();
});

test('an open socket without a frame for more than 3 s is stale since the last one', () => {
  expect(since(live, 13_001)).toBe(10_000);
});

test('a closed socket is stale at once, since the last data', () => {
  expect(since({ ...live, status: 'closed' }, 10_100)).toBe(10_000);
  expect(since({ ...live, status: 'connecting' }, 10_100)).toBe(10_000);
});

test('what polling brings moves the moment', () => {
  expect(since({ ...live, status: 'closed', lastDataAt: 15_000 }, 20_000)).toBe(15_000);
});

test('the first connection has a little time', () => {
  const first: Liveness = { ...live, status: 'connecting', lastDataAt: null, lastFrameAt: null, startedAt: 1_000 };
  expect(staleness(first, 2_000)).toBeNull();
  expect(staleness({ ...first, status: 'closed' }, 2_000)).toBeNull();
  expect(since({ ...first, status: 'closed' }, 6_000)).toBe(1_000);
  expect(since(first, 8_000)).toBe(1_000);
});

test('a socket that ticks is not live while the data itself is old, and the page says why', () => {
  const staleData = { since: 4_000, reason: 'The JobManager has sent no heartbeat for 6 s.' };
  const found = staleness({ ...live, staleData }, 10_100);
  expect(found?.since).toBe(4_000);
  expect(found?.reason).toMatch(/^The JobManager has sent no heartbeat for 6 s\. The page shows the data of that time/);
  const unknown = staleness({ ...live, staleData: { since: null, reason: 'Redis does not answer.' } }, 10_100);
  expect(unknown?.reason).toMatch(/^Redis does not answer\. The data shown may be out of date/);
  const both = staleness({ ...live, status: 'closed', staleData }, 10_100);
  expect(both?.reason).toMatch(/6 s\. The connection to the server is down/);
});

test('of several documents the oldest stale one counts', () => {
  expect(oldest([{ freshness: freshness(900), at: 10_000 }])).toBeNull();
  const said = [
    { freshness: freshness(900), at: 10_000 },
    { freshness: freshness(4_000, 'four'), at: 10_000 },
    { freshness: freshness(9_000, 'nine'), at: 10_500 },
  ];
  expect(oldest(said)).toEqual({ since: 1_500, reason: 'nine' });
  expect(oldest([...said, { freshness: freshness(null, 'nobody knows'), at: 0 }])?.since).toBeNull();
});
