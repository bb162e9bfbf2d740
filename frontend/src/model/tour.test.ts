import { expect, test } from 'vitest';

import { BEGINNING, STEPS, type TourMove, moved, tourOf } from './tour';

test('six steps lead to the end, and back to the first', () => {
  let tour = moved(BEGINNING, 'open');
  for (let step = 1; step < STEPS.length; step += 1) {
    tour = moved(tour, 'next');
    expect(tour).toEqual({ state: 'open', step });
  }
  expect(moved(tour, 'next')).toEqual({ state: 'done', step: 0 });
  expect(moved({ state: 'open', step: 0 }, 'back').step).toBe(0);
});

test('who pauses goes on where it was, and who ends begins again', () => {
  const paused = moved({ state: 'open', step: 3 }, 'pause');
  expect(moved(paused, 'open')).toEqual({ state: 'open', step: 3 });
  expect(moved(moved(paused, 'end'), 'open')).toEqual({ state: 'open', step: 0 });
});

test('what is stored comes back, and anything else is the beginning', () => {
  const moves: readonly TourMove[] = ['open', 'next', 'next', 'pause'];
  const tour = moves.reduce(moved, BEGINNING);
  expect(tourOf(JSON.stringify(tour))).toEqual(tour);
  for (const text of [null, '', '{', '{"state":"open","step":6}', '{"state":"lost","step":1}', '[]', 'null']) {
    expect(tourOf(text)).toEqual(BEGINNING);
  }
});
