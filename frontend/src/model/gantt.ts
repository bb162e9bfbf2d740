/** Checkpoints as rows of a Gantt chart: their phases, and the scale of the bars. */

import type { CheckpointPhase, CheckpointTrace, SubtaskTrace } from '../gen/contract';
import { t } from '../texts/t';
import { formatDuration } from './format';

/** In their order. */
export const PHASES: readonly CheckpointPhase[] = ['start-delay', 'alignment', 'sync', 'async', 'rest', 'commit'];

const NAMES: Record<CheckpointPhase, string> = {
  'start-delay': t('Start Delay'),
  alignment: t('Alignment'),
  sync: t('Sync'),
  async: t('Async'),
  rest: t('Not Measured'),
  commit: t('Commit'),
};

export const EXPLANATIONS: Record<CheckpointPhase, string> = {
  'start-delay': t('From the trigger until the barrier reached the subtask'),
  alignment: t('Until the barriers of all its inputs were there'),
  sync: t('The task stands still to take its snapshot'),
  async: t('The snapshot is written while the task goes on'),
  rest: t('What remains until the acknowledgement'),
  commit: t('The metadata is written, and the checkpoint recorded'),
};

export function nameOf(phase: CheckpointPhase): string {
  // a newer server may know a phase that this page does not
  return (NAMES as Partial<Record<string, string>>)[phase] ?? phase;
}

/** A part of a bar; null: what goes on is not known, as somebody has not acknowledged. */
export interface Segment {
  readonly phase: CheckpointPhase | null;
  readonly duration: number;
}

/** From the trigger to the end, so far if it is in progress. */
export function lastedOf(trace: CheckpointTrace, now: number): number {
  return trace.duration ?? Math.max(0, now - trace.trigger_timestamp);
}

/** The phases of the slowest subtask, then the commit; what is not known of its duration is one segment. */
export function segmentsOf(trace: CheckpointTrace, now: number): Segment[] {
  const [slowest] = trace.subtasks;
  const known: Segment[] = slowest === undefined ? [] : segmentsOfSubtask(slowest);
  if (trace.commit_duration !== undefined) known.push({ phase: 'commit', duration: trace.commit_duration });
  const unknown = lastedOf(trace, now) - known.reduce((sum, { duration }) => sum + duration, 0);
  return trace.status === 'COMPLETED' || unknown <= 0 ? known : [...known, { phase: null, duration: unknown }];
}

/** Phases that took no time are left out. */
export function segmentsOfSubtask({ phases }: SubtaskTrace): Segment[] {
  return PHASES.map((phase) => ({ phase, duration: phases[phase] ?? 0 })).filter(({ duration }) => duration > 0);
}

/** The longest phase of a subtask; null: it has not acknowledged, or was done at once. */
export function longestOf(subtask: SubtaskTrace): CheckpointPhase | null {
  const segments = segmentsOfSubtask(subtask);
  return segments.toSorted((a, b) => b.duration - a.duration)[0]?.phase ?? null;
}

/**
 * The duration that fills the width. One that expired after ten minutes must not make all others invisible: bars that
 * are much longer than most are cut.
 */
export function scaleOf(durations: readonly number[]): number {
  const sorted = durations.toSorted((a, b) => a - b);
  const longest = sorted.at(-1) ?? 1;
  const most = sorted[Math.floor(0.9 * (sorted.length - 1))] ?? 1;
  return Math.max(1, longest > 5 * most && most > 0 ? 2 * most : longest);
}

/** What a screen reader says of a bar: Start Delay 20 ms, Alignment 700 ms. */
export function phasesText(segments: readonly Segment[]): string {
  return segments
    .map(({ phase, duration }) => `${phase === null ? t('Not known') : nameOf(phase)} ${formatDuration(duration)}`)
    .join(', ');
}
