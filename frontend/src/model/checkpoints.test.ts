import { expect, test } from 'vitest';

import { acknowledged, durationOf, historyOf, largestParallelism, limitsBelow, typeOf } from './checkpoints';
import { checkpoint, checkpoints } from './testData';

test('the history is listed newest first, by number', () => {
  const history = { 9: checkpoint(9), 10: checkpoint(10), 2: checkpoint(2) };
  expect(historyOf(checkpoints({ history })).map(({ id }) => id)).toEqual([10, 9, 2]);
});

test('a checkpoint that is under way takes longer and longer', () => {
  const entry = checkpoint(1, { status: 'IN_PROGRESS', trigger_timestamp: 1_000, end_to_end_duration: 3 });
  expect(durationOf(entry, 5_000)).toBe(4_000);
  expect(durationOf({ ...entry, status: 'COMPLETED' }, 5_000)).toBe(3);
});

test('a hundred percent is said of nothing less', () => {
  expect(acknowledged({ num_acknowledged_subtasks: 999, num_subtasks: 1000 })).toBe('999 of 1000 (99%)');
});

test('types have names, unknown ones their own', () => {
  expect(typeOf(checkpoint(1, { type: 'SYNC_SAVEPOINT' }))).toBe('Stop with savepoint');
  expect(typeOf(checkpoint(1, { type: 'NEWER' as 'CHECKPOINT' }))).toBe('NEWER');
});

test("the job's parallelism is the largest one", () => {
  expect(largestParallelism([{ parallelism: 1 }, { parallelism: 4 }])).toBe(4);
  expect(largestParallelism([])).toBe(1);
});

test('vertices that cannot take the parallelism that is asked for are named', () => {
  const vertices = [
    { name: 'source', max_parallelism: 1 },
    { name: 'count', max_parallelism: 128 },
  ];
  expect(limitsBelow(1, vertices)).toBe('');
  expect(limitsBelow(4, vertices)).toBe('source runs with at most 1.');
  expect(limitsBelow(200, vertices)).toBe('source runs with at most 1. count runs with at most 128.');
});
