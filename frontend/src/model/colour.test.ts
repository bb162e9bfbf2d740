import { expect, test } from 'vitest';

import { BACK_PRESSURED, BUSY, IDLE, blend, loadColour } from './colour';

test('a blend starts, ends and stays between its colours', () => {
  expect(blend(IDLE, BUSY, 0)).toEqual(IDLE);
  expect(blend(IDLE, BUSY, 1)).toEqual(BUSY);
  expect(blend([0, 0, 0], [100, 200, 50], 0.5)).toEqual([50, 100, 25]);
  expect(blend(IDLE, BUSY, 7)).toEqual(BUSY);
  expect(blend(IDLE, BUSY, -1)).toEqual(IDLE);
});

test('back-pressure covers what busyness coloured', () => {
  expect(loadColour({ busy: 0, back_pressured: 0 })).toBe(`rgb(${IDLE.join(' ')})`);
  expect(loadColour({ busy: 1000, back_pressured: 0 })).toBe(`rgb(${BUSY.join(' ')})`);
  expect(loadColour({ busy: 300, back_pressured: 1000 })).toBe(`rgb(${BACK_PRESSURED.join(' ')})`);
});
