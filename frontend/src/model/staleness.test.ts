import { expect, test } from 'vitest';

import { type Liveness, staleSince } from './staleness';

const live: Liveness = { status: 'open', lastDataAt: 10_000, lastFrameAt: 10_000, startedAt: 0 };

test('a stream that only ticks is live', () => {
  expect(staleSince(live, 12_500)).toBeNull();
  expect(staleSince(live, 16_000)).toBeNull();
});

test('an open socket without a frame for more than 6 s is stale since the last one', () => {
  expect(staleSince(live, 16_001)).toBe(10_000);
});

test('a closed socket is stale at once, since the last data', () => {
  expect(staleSince({ ...live, status: 'closed' }, 10_100)).toBe(10_000);
  expect(staleSince({ ...live, status: 'connecting' }, 10_100)).toBe(10_000);
});

test('what polling brings moves the moment', () => {
  expect(staleSince({ ...live, status: 'closed', lastDataAt: 15_000 }, 20_000)).toBe(15_000);
});

test('the first connection has a little time', () => {
  const first: Liveness = { status: 'connecting', lastDataAt: null, lastFrameAt: null, startedAt: 1_000 };
  expect(staleSince(first, 2_000)).toBeNull();
  expect(staleSince({ ...first, status: 'closed' }, 2_000)).toBeNull();
  expect(staleSince({ ...first, status: 'closed' }, 6_000)).toBe(1_000);
  expect(staleSince(first, 8_000)).toBe(1_000);
});
