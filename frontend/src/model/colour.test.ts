import { expect, test } from 'vitest';

import { LOAD_COLOUR, loadColour } from './colour';

const { busy, backPressured, idle } = LOAD_COLOUR;

test('what only works, waits or idles has the colour of it', () => {
  expect(loadColour({ busy: 0, back_pressured: 0 })).toBe(idle);
  expect(loadColour({ busy: 1000, back_pressured: 0 })).toBe(busy);
  expect(loadColour({ busy: 300, back_pressured: 1000 })).toBe(backPressured);
});

test('shares are mixed, and back-pressure covers what busyness coloured', () => {
  expect(loadColour({ busy: 250, back_pressured: 0 })).toBe(`color-mix(in srgb, ${busy} 25%, ${idle})`);
  expect(loadColour({ busy: 1000, back_pressured: 400 })).toBe(`color-mix(in srgb, ${backPressured} 40%, ${busy})`);
  expect(loadColour({ busy: 2000, back_pressured: -1 })).toBe(busy);
});
