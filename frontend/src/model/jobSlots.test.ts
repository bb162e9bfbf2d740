import { expect, test } from 'vitest';

import type { AllocatedSlot } from '../gen/contract';
import { slotsByJob } from './jobSlots';

test('slots of a TaskManager are shown by job, with the memory of those that have told it', () => {
  const slot = (jobId: string, resident: number | null) => ({ jobId, memory: { resident } }) as AllocatedSlot;
  const found = slotsByJob([slot('b', null), slot('a', 1_000), slot('b', 30), slot('c', null), slot('b', 12)]);
  expect(found.map(({ jobId, slots, memory }) => [jobId, slots.length, memory])).toEqual([
    ['b', 3, 42],
    ['a', 1, 1_000],
    ['c', 1, null],
  ]);
});
