/** Slots of a TaskManager by the jobs that hold them. Pure. */

import type { AllocatedSlot } from '../gen/contract';

export interface JobSlots {
  readonly jobId: string;
  readonly slots: readonly AllocatedSlot[];
  /** Of their processes, bytes; null: of none it is known. */
  readonly memory: number | null;
}

/** Slots of a TaskManager by the job that holds them, the job with the most slots first. */
export function slotsByJob(allocated: readonly AllocatedSlot[]): readonly JobSlots[] {
  return [...new Set(allocated.map(({ jobId }) => jobId))]
    .map((jobId) => {
      const slots = allocated.filter((slot) => slot.jobId === jobId);
      const known = slots.flatMap(({ memory }) => memory.resident ?? []);
      return { jobId, slots, memory: known.length === 0 ? null : known.reduce((sum, bytes) => sum + bytes) };
    })
    .toSorted((one, other) => other.slots.length - one.slots.length || (one.jobId < other.jobId ? -1 : 1));
}
