/** Lists and names of checkpoints for display. */

import type { CheckpointConfig, CheckpointEntry, JobCheckpoints } from '../gen/contract';
import { t } from '../texts/t';
import type { Tone } from './states';

/** Newest first. */
export function historyOf(checkpoints: JobCheckpoints): CheckpointEntry[] {
  return Object.values(checkpoints.history).toSorted((a, b) => b.id - a.id);
}

const TYPES: Record<CheckpointEntry['type'], string> = {
  CHECKPOINT: t('Checkpoint'),
  UNALIGNED_CHECKPOINT: t('Unaligned checkpoint'),
  SAVEPOINT: t('Savepoint'),
  SYNC_SAVEPOINT: t('Stop with savepoint'),
};

export function typeOf(entry: Pick<CheckpointEntry, 'type'>): string {
  // a newer server may know a type that this page does not
  return (TYPES as Partial<Record<string, string>>)[entry.type] ?? entry.type;
}

const TONES: Record<CheckpointEntry['status'], Tone> = {
  IN_PROGRESS: 'waiting',
  COMPLETED: 'done',
  FAILED: 'failed',
};

export function toneOfCheckpoint(status: CheckpointEntry['status']): Tone {
  return TONES[status];
}

/** 3 of 4 (75%). */
export function acknowledged(part: { num_acknowledged_subtasks: number; num_subtasks: number }): string {
  const { num_acknowledged_subtasks: done, num_subtasks: all } = part;
  return all === 0
    ? '0 of 0'
    : t('{done} of {all} ({percent}%)', { done, all, percent: Math.floor((100 * done) / all) });
}

/** Duration of a checkpoint, so far if it is in progress. */
export function durationOf(entry: CheckpointEntry, now: number): number {
  return entry.status === 'IN_PROGRESS' ? Math.max(0, now - entry.trigger_timestamp) : entry.end_to_end_duration;
}

const RETENTION: Record<CheckpointConfig['retention'], string> = {
  no_externalized_checkpoints: t('Disabled: deleted when the job ends'),
  delete_on_cancellation: t('Kept if the job fails'),
  retain_on_cancellation: t('Kept if the job fails or is cancelled'),
};

export function retentionOf(config: CheckpointConfig): string {
  return RETENTION[config.retention];
}

/** The job's parallelism: that of the vertices without a smaller one. */
export function largestParallelism(vertices: readonly { parallelism: number }[]): number {
  return Math.max(1, ...vertices.map(({ parallelism }) => parallelism));
}

/** The vertices that cannot run with so many subtasks, in words; '' if all can. */
export function limitsBelow(asked: number, vertices: readonly { name: string; max_parallelism: number }[]): string {
  const limited = vertices.filter(({ max_parallelism }) => max_parallelism < asked);
  return limited
    .map(({ name, max_parallelism }) =>
      t('{name} runs with at most {maxParallelism}.', { name, maxParallelism: max_parallelism }),
    )
    .join(' ');
}
