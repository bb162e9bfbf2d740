import { expect, test } from 'vitest';

import { alignedTo, csvOf, nearest, scaleOf } from './chart';

const NOW = 1_700_000_000_000;

test('a CSV has a row for each sample, in units that a program reads, and no formulas', () => {
  const series = [
    { name: 'Busy', values: [980, null] },
    { name: '=cmd|"a"', values: [0, 0.5] },
  ];
  expect(csvOf([NOW, NOW + 5_000], series)).toBe(
    'time,"Busy","\'=cmd|""a"""\r\n2023-11-14T22:13:20.000Z,980,0\r\n2023-11-14T22:13:25.000Z,,0.5\r\n',
  );
});

test.each([
  ['a;=HYPERLINK(1)', `"a =HYPERLINK(1)"`],
  [';\n=1+1', `"'=1+1"`],
  ['＝1+1', `"'＝1+1"`],
  ['" =1', `"'"" =1"`],
  ['map, filter', `"map, filter"`],
])('%j begins no formula in any cell', (name, shown) => {
  expect(csvOf([], [{ name, values: [] }])).toBe(`time,${shown}\r\n`);
});

test('a scale goes from its first to its last time, and as high as its largest value', () => {
  const series = [{ name: 'a', values: [2, 8] }];
  const scale = scaleOf({ times: [NOW, NOW + 120_000], marked: [], windowMs: 600_000, series });
  expect([scale.across(NOW), scale.across(NOW + 60_000), scale.across(NOW + 120_000)]).toEqual([0, 0.5, 1]);
  expect([scale.top, scale.up(scale.top), scale.up(0)]).toEqual([10, 1, 0]);
});

test('samples of another vertex are drawn where both have some', () => {
  expect(alignedTo([1, 2, 3], [2, 3, 4], [20, null, 40])).toEqual([null, 20, null]);
});

test('the sample nearest to the cursor is shown', () => {
  expect(nearest([10, 20, 30], 24)).toBe(1);
  expect(nearest([], 24)).toBeNull();
});
