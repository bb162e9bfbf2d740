import { expect, test } from 'vitest';

import { behindOf, holderText, liveLagOf, upToDate } from './eventTime';

const REPLAYED = { newest: 5_000, is_live: false, held_by: {} };

test('a watermark is behind the newest one, and never ahead of it', () => {
  expect(behindOf(2_000, REPLAYED, 'v')).toBe(3_000);
  expect(behindOf(5_100, REPLAYED, 'v')).toBe(0);
  expect(behindOf(null, REPLAYED, 'v')).toBeNull();
  expect(behindOf('max', REPLAYED, 'v')).toBeNull();
  expect(behindOf(1, undefined, 'v')).toBeNull();
  expect(behindOf(2_000, { ...REPLAYED, newest_of: { v: 2_500 } }, 'v')).toBe(500);
  expect(behindOf(1, { is_live: true, held_by: {} }, 'v')).toBeNull();
});

test('the newest watermark is no older than that of any vertex', () => {
  expect(upToDate(REPLAYED, [4_000, 6_000, null, 'max']).newest).toBe(6_000);
  expect(upToDate(REPLAYED, [4_000]).newest).toBe(5_000);
  expect(upToDate({ is_live: false, held_by: {} }, [1]).newest).toBeUndefined();
});

test('the clock is compared with only where the sources of a vertex are live', () => {
  const mixed = { ...REPLAYED, is_live: true, live: { v: true } };
  expect(liveLagOf(2_000, 10_000, mixed, 'v')).toBe(8_000);
  // another source replays what this vertex gets
  expect(liveLagOf(2_000, 10_000, mixed, 'w')).toBeNull();
  expect(liveLagOf(2_000, 10_000, REPLAYED, 'v')).toBeNull();
  expect(liveLagOf(2_000, 10_000, undefined, 'v')).toBeNull();
});

test('a holder is told with its subtask, its split and the reason', () => {
  const holder = { vertex: 'v', subtask: 1, why: 'nothing-to-read', still: 0 } as const;
  expect(holderText(holder)).toBe('subtask 1: nothing to read');
  expect(holderText({ ...holder, split: 'p3', why: 'behind' })).toBe('subtask 1, split p3: furthest behind');
});
