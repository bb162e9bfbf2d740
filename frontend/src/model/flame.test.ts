import { expect, test } from 'vitest';

import type { VertexStacks } from '../gen/contract';
import { boxesOf, flameAt, flameOf, hottest, isOfEngine } from './flame';

const FRAMES = ['step (runtime/task/task.py:1)', 'map (job.py:3)', 'slow (job.py:9)', 'fast (job.py:20)'];

function stacks(rows: VertexStacks['stacks']): VertexStacks {
  return {
    number: 1,
    ended_at: 0,
    duration: 5000,
    count: 100,
    subtasks: [0, 1],
    frames: FRAMES,
    stacks: rows,
    threads: [],
  };
}

const SAMPLES = stacks([
  [0, [0, 1, 2], 20, 10],
  [0, [0, 1, 3], 10, 0],
  [1, [0], 0, 4],
]);

test('a tree counts the samples below each function, the most frequent first', () => {
  const root = flameOf(SAMPLES, 'full', null);
  expect([root.value, root.self]).toEqual([44, 0]);
  const [step] = root.children;
  expect([step?.name, step?.value, step?.self]).toEqual([FRAMES[0], 44, 4]);
  const map = flameAt(root, [0, 0]);
  expect(map.children.map(({ name, value }) => [name, value])).toEqual([
    [FRAMES[2], 30],
    [FRAMES[3], 10],
  ]);
});

test('only samples of a kind, and of a subtask, count', () => {
  expect(flameOf(SAMPLES, 'on_cpu', null).value).toBe(30);
  expect(flameOf(SAMPLES, 'off_cpu', null).value).toBe(14);
  expect(flameOf(SAMPLES, 'off_cpu', 1).value).toBe(4);
});

test('boxes share the width of the one above them', () => {
  const boxes = boxesOf(flameOf(SAMPLES, 'full', 0), []);
  expect(boxes.map(({ flame, depth, left, width }) => [flame.name, depth, left, width])).toEqual([
    ['all', 0, 0, 1],
    [FRAMES[0], 1, 0, 1],
    [FRAMES[1], 2, 0, 1],
    [FRAMES[2], 3, 0, 0.75],
    [FRAMES[3], 3, 0.75, 0.25],
  ]);
});

test('a box that is zoomed in has the whole width, and so have those above it', () => {
  const boxes = boxesOf(flameOf(SAMPLES, 'full', 0), [0, 0, 1]);
  expect(boxes.map(({ path, width }) => [path, width])).toEqual([
    [[], 1],
    [[0], 1],
    [[0, 0], 1],
    [[0, 0, 1], 1],
  ]);
  // the samples have changed since
  expect(flameAt(flameOf(SAMPLES, 'full', 1), [0, 0, 1]).name).toBe(FRAMES[0]);
});

test('boxes that cannot be seen are left out', () => {
  const many = stacks([
    [0, [0], 10_000, 0],
    [0, [1], 1, 0],
  ]);
  expect(boxesOf(flameOf(many, 'full', null), [])).toHaveLength(2);
});

test('the hottest functions are those that are innermost; recursion counts once', () => {
  const recursive = stacks([
    [0, [1, 2, 2, 2], 7, 0],
    [0, [1, 3], 2, 0],
  ]);
  expect(hottest(flameOf(recursive, 'full', null), 5)).toEqual([
    { name: FRAMES[2], self: 7, total: 7 },
    { name: FRAMES[3], self: 2, total: 2 },
  ]);
});

test("the engine's own frames are told from the user's", () => {
  expect(FRAMES.map(isOfEngine)).toEqual([true, false, false, false]);
});
