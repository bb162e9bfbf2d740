/** Data skew of the vertices of a job. Pure. */

import type { SkewFigures } from '../gen/contract';

export interface Spread {
  /** Standard deviation / mean. */
  readonly cv: number;
  readonly maxToAverage: number;
  /** The one that gets most. */
  readonly subtask: number;
}

export interface VertexSkew {
  readonly vertex: string;
  /** Since the start of its tasks; null: too few records, as below. */
  readonly total: Spread | null;
  readonly live: Spread | null;
}

/** The worst vertex first. */
export function skewsOf(skew: Readonly<Record<string, SkewFigures>> | undefined): VertexSkew[] {
  const found = Object.entries(skew ?? {}).map(([vertex, [cv, max, subtask, liveCv, liveMax, liveSubtask]]) => ({
    vertex,
    total: spreadOf(cv, max, subtask),
    live: spreadOf(liveCv, liveMax, liveSubtask),
  }));
  return found.sort((a, b) => worst(b) - worst(a));
}

/** Above 100 % if few subtasks get nearly all. */
export function cvText({ cv }: Spread): string {
  return `${Math.round(cv * 100)}%`;
}

export function ratioText({ maxToAverage }: Spread): string {
  return `${maxToAverage.toFixed(1)} ×`;
}

function spreadOf(cv: number | null, maxToAverage: number | null, subtask: number | null): Spread | null {
  return cv === null || maxToAverage === null || subtask === null ? null : { cv, maxToAverage, subtask };
}

function worst({ total, live }: VertexSkew): number {
  return Math.max(total?.cv ?? 0, live?.cv ?? 0);
}
