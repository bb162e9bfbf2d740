/** What a chart draws: its series, its scale, and its values as CSV. Pure. */

import { niceCeiling } from './history';

export interface Series {
  readonly name: string;
  readonly values: readonly (number | null)[];
  /** Of what has a colour of its own everywhere; else the next one of the chart's. */
  readonly colour?: string;
  /** Lengths of dashes and gaps; a line without them if it is missing. */
  readonly dash?: string;
}

export interface Scale {
  /** Epoch ms. */
  readonly last: number;
  readonly span: number;
  readonly bottom: number;
  readonly top: number;
  readonly ticks: readonly number[];
  /** Where a time is between both edges, 0..1, and a value between the bottom and the top. */
  readonly across: (time: number) => number;
  readonly up: (value: number) => number;
}

export interface Scaled {
  readonly times: readonly number[];
  /** Of marks, epoch ms: what has ended a job comes after its last sample. */
  readonly marked: readonly number[];
  readonly windowMs: number;
  readonly series: readonly Series[];
  /** A round value at or above one. */
  readonly ceilingOf?: ((value: number) => number) | undefined;
  /** The largest value if it is not given. */
  readonly top?: number | undefined;
}

/** Minimum span, so that the first seconds are wider than a pixel. */
const MIN_SPAN_MS = 60_000;

export function scaleOf({ times, marked, windowMs, series, ceilingOf = niceCeiling, top }: Scaled): Scale {
  const first = times[0] ?? 0;
  const last = Math.max(times.at(-1) ?? 0, ...(times.length > 0 ? marked : []));
  const span = Math.min(windowMs, Math.max(MIN_SPAN_MS, last - first));
  const values = series.flatMap((line) => line.values.filter((value) => value !== null));
  const largest = Math.max(0, ...values);
  // event times may be ahead of the clock
  const smallest = Math.min(0, ...values);
  const bottom = smallest < 0 ? -ceilingOf(-smallest) : 0;
  const ceiling = top ?? (largest > 0 || bottom === 0 ? ceilingOf(largest) : 0);
  return {
    last,
    span,
    bottom,
    top: ceiling,
    ticks: bottom === 0 ? [ceiling, ceiling / 2, 0] : [...new Set([ceiling, 0, bottom])],
    across: (time) => 1 - (last - time) / span,
    up: (value) => (value - bottom) / (ceiling - bottom),
  };
}

/** Index of the sample that is nearest to a time; null: there is none. */
export function nearest(times: readonly number[], time: number): number | null {
  let best: number | null = null;
  for (const [index, each] of times.entries()) {
    if (best === null || Math.abs(each - time) < Math.abs((times[best] ?? 0) - time)) best = index;
  }
  return best;
}

/** The values in their own units (ms, bytes, thousandths), with times in UTC; an empty cell: not known. */
export function csvOf(times: readonly number[], series: readonly Series[]): string {
  const rows = times.map((time, index) => [
    new Date(time).toISOString(),
    ...series.map(({ values }) => String(values[index] ?? '')),
  ]);
  return [['time', ...series.map(({ name }) => quoted(name))], ...rows].map((row) => `${row.join(',')}\r\n`).join('');
}

/**
 * Names of operators are users' own: none begins a formula in a spreadsheet, neither in its cell nor in one of those
 * into which some part it at a semicolon, a tab or a line break.
 */
function quoted(name: string): string {
  const whole = name.replace(/[\s;\0\uFEFF]+/g, ' ').trim();
  const plain = /^["\s]*[=+\-@＝＋－＠]/.test(whole) ? `'${whole}` : whole;
  return `"${plain.replaceAll('"', '""')}"`;
}

/** A series at the times of other samples: null where it has none then. */
export function alignedTo(
  times: readonly number[],
  own: readonly number[],
  values: readonly (number | null)[],
): (number | null)[] {
  const known = new Map(own.map((time, index) => [time, values[index] ?? null]));
  return times.map((time) => known.get(time) ?? null);
}
