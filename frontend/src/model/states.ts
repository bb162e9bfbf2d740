/** Groups of Flink's job and task states: terminal, transitional, and the look of each. */

import type { ExecutionState, JobState } from '../gen/contract';

export type AnyState = JobState | ExecutionState;
export type Tone = 'running' | 'waiting' | 'done' | 'stopped' | 'failed' | 'trouble';

const TONES: Record<AnyState, Tone> = {
  INITIALIZING: 'waiting',
  CREATED: 'waiting',
  SCHEDULED: 'waiting',
  DEPLOYING: 'waiting',
  RECONCILING: 'waiting',
  RUNNING: 'running',
  FINISHED: 'done',
  CANCELED: 'stopped',
  CANCELLING: 'trouble',
  CANCELING: 'trouble',
  SUSPENDED: 'stopped',
  RESTARTING: 'trouble',
  FAILING: 'trouble',
  FAILED: 'failed',
};

/** Order in which task counts are listed, most important first. */
export const TASK_STATES: readonly ExecutionState[] = [
  'RUNNING',
  'FAILED',
  'CANCELING',
  'INITIALIZING',
  'DEPLOYING',
  'SCHEDULED',
  'CREATED',
  'RECONCILING',
  'CANCELED',
  'FINISHED',
];

/** The state of the whole whose parts have these states. Source: Flink, getAggregateJobVertexState. */
export function stateOfAll(states: readonly ExecutionState[]): ExecutionState {
  const first = DECISIVE.find((state) => states.includes(state));
  if (first !== undefined) return first;
  if (states.every((state) => state === 'FINISHED')) return 'FINISHED';
  return states.includes('RUNNING') || states.includes('FINISHED') ? 'RUNNING' : 'CREATED';
}

/** What one part is in, the whole is in. */
const DECISIVE = ['FAILED', 'CANCELING', 'CANCELED', 'INITIALIZING', 'DEPLOYING', 'SCHEDULED'] as const;

export function toneOf(state: AnyState): Tone {
  // a newer server may know a state that this page does not
  return (TONES as Partial<Record<string, Tone>>)[state] ?? 'waiting';
}

export function isTerminal(state: AnyState): boolean {
  return state === 'FINISHED' || state === 'CANCELED' || state === 'FAILED';
}

export function isCancellable(state: JobState): boolean {
  return !isTerminal(state) && state !== 'CANCELLING';
}
