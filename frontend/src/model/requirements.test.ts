import { expect, test } from 'vitest';

import { boundsOf, boundsProblem, changedBounds, type Draft, edited, slotsNeeded, slotsText } from './requirements';
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

test('the slots of a job are those of the widest vertex of each slot sharing group', () => {
  const apart = { slot_sharing_group: 'apart' };
  const job = [
    vertex('source', [], { parallelism: 2 }),
    vertex('map', ['source'], { parallelism: 3 }),
    vertex('model', ['map'], { parallelism: 2, ...apart }),
  ];
  expect(slotsNeeded(job, {})).toBe(5);
  expect(slotsNeeded(job, { source: 4, model: 1 })).toBe(5);
  expect(slotsNeeded(job, { map: 1, model: 6 })).toBe(8);
});

test('the slots that are missing are told', () => {
  expect(slotsText(4, 2, 3)).toBe('Needs 4 slots: the job has 2, and 3 are free.');
  expect(slotsText(4, 2, 1)).toBe('Needs 4 slots: the job has 2, and 1 is free, so 1 is missing.');
  expect(slotsText(1, 1, 0)).toBe('Needs 1 slot: the job has 1, and 0 are free.');
});
