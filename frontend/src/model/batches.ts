/** What a batch of a job in micro-batches has spent its time with, in words and in the order of its phases. */

import type { Batch, BatchPhases } from '../gen/contract';
import { t } from '../texts/t';
import { formatPhase } from './format';

export type BatchPhase = keyof BatchPhases;

export const BATCH_PHASES: readonly BatchPhase[] = ['plan', 'run', 'store', 'commit'];

export const PHASE_NAMES: Readonly<Record<BatchPhase, string>> = {
  plan: t('Plan'),
  run: t('Run'),
  store: t('Store'),
  commit: t('Commit'),
};

export const PHASE_EXPLANATIONS: Readonly<Record<BatchPhase, string>> = {
  plan: t('until its splits were dealt and its tasks began'),
  run: t('in the tasks, until all of them had stored their state'),
  store: t('until the checkpoint was recorded'),
  commit: t('until the sinks had committed'),
};

export const KIND_NAMES: Readonly<Record<Batch['kind'], string>> = {
  data: t('Batch'),
  idle: t('Checkpoint'),
  snapshot: t('Savepoint'),
  drain: t('Drain'),
};

/** "Plan 20 ms, Run 310 ms, ..." */
export function batchPhasesText({ phases }: Batch): string {
  return BATCH_PHASES.map((phase) => `${PHASE_NAMES[phase]} ${formatPhase(phases[phase])}`).join(', ');
}

/** Identifies a batch: the regions of a job each have one of a checkpoint. */
export function keyOf({ checkpoint, region }: Batch): string {
  return `${checkpoint}-${region.slice(0, 8)}`;
}

/** Records a second that its sources have read while it lasted; null: it has lasted no time. */
export function readRate({ read_records: records, duration }: Batch): number | null {
  return duration > 0 ? (1000 * records) / duration : null;
}
