/** History of a vertex's last minutes, kept by the page: at most one sample per second, oldest dropped. */

import type { Metrics } from './job';

export interface Sample {
  readonly time: number;
  readonly recordsIn: number;
  readonly recordsOut: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly busy: number;
  readonly backPressured: number;
  readonly idle: number;
  readonly lag: number | null;
}

export const HISTORY_MS = 10 * 60_000;
const RESOLUTION_MS = 1_000;

/** The history with one more sample; the same array if it is too soon for one. */
export function record(
  history: readonly Sample[],
  metrics: Metrics,
  lag: number | null,
  time: number,
): readonly Sample[] {
  const last = history.at(-1);
  if (last !== undefined && time - last.time < RESOLUTION_MS) return history;
  const sample: Sample = {
    time,
    recordsIn: metrics.records_in_per_second,
    recordsOut: metrics.records_out_per_second,
    bytesIn: metrics.bytes_in_per_second,
    bytesOut: metrics.bytes_out_per_second,
    busy: metrics.busy,
    backPressured: metrics.back_pressured,
    idle: metrics.idle,
    lag,
  };
  const first = history.findIndex((old) => old.time >= time - HISTORY_MS);
  return [...(first < 0 ? [] : history.slice(first)), sample];
}

export interface Statistics {
  readonly min: number;
  readonly average: number;
  readonly max: number;
}

/** Null where there is no value at all. */
export function statistics(values: readonly (number | null)[]): Statistics | null {
  const present = values.filter((value) => value !== null);
  if (present.length === 0) return null;
  const sum = present.reduce((total, value) => total + value, 0);
  return { min: Math.min(...present), average: sum / present.length, max: Math.max(...present) };
}

/** A round number at or above the value: 1, 2, 5 or 10 times a power of ten. For the top of an axis. */
export function niceCeiling(value: number, base: 1000 | 1024 = 1000): number {
  if (!(value > 0)) return 1;
  // values shown in KiB must be round in KiB
  if (base === 1024 && value > 1024) return 1024 * niceCeiling(value / 1024, base);
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= value) ?? 10;
  return step * power;
}
