import { expect, test } from 'vitest';

import { boundsOf, boundsProblem, changedBounds, type Draft, edited } from './requirements';
import { vertex } from './testData';

const map = vertex('map', [], { name: 'map', parallelism: 2, max_parallelism: 8, lower_bound: 1, upper_bound: 4 });

test('bounds that are not in the document are the parallelism', () => {
  expect(boundsOf(map)).toEqual({ lower: 1, upper: 4 });
  expect(boundsOf(vertex('old', [], { parallelism: 3 }))).toEqual({ lower: 3, upper: 3 });
});

test('only bounds that differ are changed', () => {
  const typed = edited({}, map, 'upper', 6);
  expect(changedBounds([map], typed)).toEqual({ map: { lower: 1, upper: 6 } });
  expect(changedBounds([map], edited(typed, map, 'upper', 4))).toEqual({});
  expect(changedBounds([map], {})).toEqual({});
});

test.each<[Draft[string], string | null]>([
  [{ lower: 2, upper: 8 }, null],
  [{ lower: 5, upper: 4 }, 'map: the lower bound 5 is above the upper bound 4.'],
  [{ lower: 1, upper: 9 }, 'map: bounds are whole numbers from 1 to 8.'],
  [{ lower: '', upper: 4 }, 'map: bounds are whole numbers from 1 to 8.'],
  [{ lower: 1.5, upper: 4 }, 'map: bounds are whole numbers from 1 to 8.'],
])('bounds %o are refused as the server would refuse them', (typed, problem) => {
  expect(boundsProblem([map], changedBounds([map], { map: typed }))).toBe(problem);
});
