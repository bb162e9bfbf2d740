import { expect, test } from 'vitest';

import type { JobTimeline } from '../gen/contract';
import { attemptsIn, entriesOf, placeOf, stateText } from './timeline';

const TIMELINE: JobTimeline = {
  begin: 1_000,
  is_cut: false,
  now: 11_000,
  states: [
    { state: 'CREATED', attempt: null, begin: 1_000, end: 2_000, cause: '' },
    { state: 'RUNNING', attempt: 0, begin: 2_000, end: 6_000, cause: '' },
    { state: 'RESTARTING', attempt: 0, begin: 6_000, end: 7_000, cause: 'broke' },
    { state: 'RUNNING', attempt: 1, begin: 7_000, end: null, cause: '' },
  ],
  events: [{ kind: 'savepoint', begin: 6_000, end: 6_500, text: 'savepoint', is_failed: false }],
  runs: [],
};

test('parts lie where they were, and what goes on reaches the end', () => {
  expect(placeOf({ begin: 2_000, end: 6_000 }, TIMELINE)).toEqual({ left: 10, width: 40 });
  expect(placeOf({ begin: 7_000, end: null }, TIMELINE)).toEqual({ left: 60, width: 40 });
});

test('what began before the strip does is cut', () => {
  expect(placeOf({ begin: 0, end: 2_000 }, TIMELINE)).toEqual({ left: 0, width: 10 });
  expect(placeOf({ begin: 20_000, end: null }, { ...TIMELINE, begin: 11_000 })).toEqual({ left: 100, width: 0 });
});

test('the list has everything, the newest first', () => {
  const entries = entriesOf(TIMELINE);
  expect(entries.map(({ at }) => at)).toEqual([7_000, 6_000, 6_000, 2_000, 1_000]);
  expect(entries[1]?.event?.kind).toBe('savepoint');
});

test('a state is told with its attempt and how long it lasted', () => {
  const [created, running] = TIMELINE.states;
  if (created === undefined || running === undefined) throw new Error('no states');
  expect(stateText(created, 0)).toBe('CREATED, for 1\u202fs');
  expect(stateText({ ...running, end: null }, 5_000)).toBe('RUNNING, attempt 0, for 3\u202fs');
  // an end does not last
  expect(stateText({ ...running, state: 'FAILED', end: null }, 5_000)).toBe('FAILED, attempt 0');
});

test('attempts are counted once', () => {
  expect(attemptsIn(TIMELINE)).toBe(2);
});
