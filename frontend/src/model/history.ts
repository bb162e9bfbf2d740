/**
 * History of a vertex or an edge: what the server keeps, and what the page has seen since, at most one sample per second
 * for ten minutes. Pure.
 */

import type { EdgeMetrics, MetricHistory, TimelineEvent } from '../gen/contract';
import type { Metrics } from './job';

interface Timed {
  /** Epoch ms. */
  readonly time: number;
}

/** Null: nobody knows it. */
type Figures<F extends string> = Readonly<Record<F, number | null>>;

/** What has a history. */
export interface Subject<F extends string> {
  readonly kind: 'v' | 'e';
  /** Metrics of the server by what they are here. */
  readonly metrics: Readonly<Record<F, string>>;
}

export const VERTEX = {
  kind: 'v',
  metrics: {
    recordsIn: 'records_in_per_second',
    recordsOut: 'records_out_per_second',
    bytesIn: 'bytes_in_per_second',
    bytesOut: 'bytes_out_per_second',
    busy: 'busy',
    backPressured: 'back_pressured',
    idle: 'idle',
    /** Epoch ms. */
    watermark: 'watermark',
    /** ms behind the clock, while sources are live. */
    lag: 'watermark_lag',
    /** ms of event time behind the newest watermark of the sources. */
    behind: 'behind',
  },
} as const;

/** What the page does not see itself. */
export const KEPT = {
  kind: 'v',
  metrics: { pending: 'pending_records', late: 'late_records_per_second', stateSize: 'state_size' },
} as const;

export const EDGE = {
  kind: 'e',
  metrics: {
    records: 'records_per_second',
    bytes: 'bytes_per_second',
    queuedBytes: 'queued_bytes',
    queuedBuffers: 'queued_buffers',
  },
} as const;

export type Sample<F extends string = keyof typeof VERTEX.metrics> = Timed & Figures<F>;
export type KeptSample = Sample<keyof typeof KEPT.metrics>;
export type EdgeSample = Sample<keyof typeof EDGE.metrics>;

/** Something to be marked on the charts. */
export interface Mark {
  readonly time: number;
  readonly text: string;
  readonly isFailed: boolean;
}

export const HISTORY_MS = 10 * 60_000;
export const WINDOWS = [
  { name: '10m', label: '10 min', ms: HISTORY_MS },
  { name: '1h', label: '1 h', ms: 3_600_000 },
  { name: '24h', label: '24 h', ms: 24 * 3_600_000 },
] as const;
/** The server's samples are so far apart; the page's are not thinned out unless the server's are averaged, too. */
const SAMPLE_MS = 5_000;
/** Nothing is drawn from one sample to the next where so many in between are missing. */
const MISSING = 3;
/** Checkpoints come all the time: only those that failed are marked. */
const MARKED: readonly TimelineEvent['kind'][] = ['savepoint', 'stop', 'rescale', 'autoscaler', 'failure'];
const RESOLUTION_MS = 1_000;
/** A clock that is behind by more was set back; by less, a message has only taken longer than others. */
const SETBACK_MS = 10_000;
/** Watermarks come in steps: over a shorter time their speed is that of the steps. */
const SPEED_MS = 10_000;

/**
 * The history with one more sample; the same array if it is too soon for one. After the clock was set back, samples from
 * then on are gone: they were in the future.
 */
export function record<S extends Timed>(history: readonly S[], sample: S): readonly S[] {
  const { time } = sample;
  const last = history.at(-1);
  if (last !== undefined && time < last.time - SETBACK_MS) {
    return record(
      history.filter((old) => old.time <= time - RESOLUTION_MS),
      sample,
    );
  }
  if (last !== undefined && time - last.time < RESOLUTION_MS) return history;
  const first = history.findIndex((old) => old.time >= time - HISTORY_MS);
  return [...(first < 0 ? [] : history.slice(first)), sample];
}

/** What the page sees of a vertex. */
export function sampleOf(metrics: Metrics, lag: number | null, behind: number | null, time: number): Sample {
  return {
    time,
    recordsIn: metrics.records_in_per_second,
    recordsOut: metrics.records_out_per_second,
    bytesIn: metrics.bytes_in_per_second,
    bytesOut: metrics.bytes_out_per_second,
    busy: metrics.busy,
    backPressured: metrics.back_pressured,
    idle: metrics.idle,
    watermark: typeof metrics.watermark === 'number' ? metrics.watermark : null,
    lag,
    behind,
  };
}

/** What the page sees of an edge. */
export function edgeSampleOf(metrics: EdgeMetrics, time: number): EdgeSample {
  return {
    time,
    records: metrics.records_per_second,
    bytes: metrics.bytes_per_second,
    queuedBytes: metrics.queued_bytes,
    queuedBuffers: metrics.queued_buffers,
  };
}

/** The window of a name; the shortest one if there is no such name. */
export function windowOf(name: string | null): (typeof WINDOWS)[number] {
  return WINDOWS.find((each) => each.name === name) ?? WINDOWS[0];
}

/** The series of some subjects of one vertex or edge, in the form in which the server takes them. */
export function seriesOf(id: string, ...subjects: readonly Subject<string>[]): string {
  return subjects
    .flatMap(({ kind, metrics }) => Object.values(metrics).map((metric) => seriesName(kind, id, metric)))
    .join(',');
}

function seriesName(kind: string, id: string, metric: string): string {
  return `${kind}.${id}.${metric}`;
}

/** What the server knows of a subject. */
export function samplesOf<F extends string>(
  { times, series }: MetricHistory,
  { kind, metrics }: Subject<F>,
  id: string,
): readonly Sample<F>[] {
  const columns = Object.entries<string>(metrics).map(
    ([figure, metric]) => [figure as F, series[seriesName(kind, id, metric)]] as const,
  );
  return times.map((time, index) => sampleAt(time, columns, (column) => column?.[index] ?? null));
}

/**
 * The server's samples and the page's, as far as they are in the window. The page's are closer together; where it has
 * seen nothing, such as before it was opened or while its tab slept, the server's are taken. Where those are averages,
 * they are of more than the page has seen: then it is the other way round. A sample without numbers follows the last
 * one before a gap.
 */
export function merged<F extends string>(
  earlier: readonly Sample<F>[],
  seen: readonly Sample<F>[],
  step: number,
  windowMs: number,
): readonly Sample<F>[] {
  // the marks of the server's gaps would be near what the page has seen
  const known = earlier.filter(hasNumbers);
  const all = step > SAMPLE_MS ? filledUp(known, averaged(seen, step), step) : filledUp(seen, known, step);
  const begin = (all.at(-1)?.time ?? 0) - windowMs;
  const shown = all.filter((sample) => sample.time >= begin);
  return broken(shown, earlier, Math.max(step, SAMPLE_MS));
}

/** Samples, and one without numbers where each gap begins; the server knows how far apart its own ones may be. */
function broken<F extends string>(
  samples: readonly Sample<F>[],
  earlier: readonly Sample<F>[],
  interval: number,
): readonly Sample<F>[] {
  const isKnown = (from: number, to: number) =>
    earlier.some((one, index) => {
      const next = earlier[index + 1];
      if (next === undefined || one.time > from + interval || next.time < to - interval) return false;
      return hasNumbers(one) && hasNumbers(next);
    });
  return samples.flatMap((sample, index) => {
    const next = samples[index + 1]?.time ?? -Infinity;
    if (next - sample.time <= MISSING * interval || isKnown(sample.time, next)) return [sample];
    return [sample, sampleAt(sample.time + interval, figuresOf(sample), () => null)];
  });
}

function hasNumbers<F extends string>(sample: Sample<F>): boolean {
  return figuresOf(sample).some(([, value]) => value !== null);
}

function figuresOf<F extends string>(sample: Sample<F>): readonly (readonly [F, number | null])[] {
  return Object.entries(sample).filter(([name]) => name !== 'time') as [F, number | null][];
}

/** Samples, and those of others that have none nearby; both by time. */
function filledUp<S extends Timed>(samples: readonly S[], others: readonly S[], step: number): readonly S[] {
  let next = 0;
  const lacking = others.filter(({ time }) => {
    while ((samples[next]?.time ?? Infinity) <= time) next += 1;
    const before = samples[next - 1]?.time ?? -Infinity;
    const after = samples[next]?.time ?? Infinity;
    return time - before >= step && after - time >= step;
  });
  return [...samples, ...lacking].toSorted((one, other) => one.time - other.time);
}

/** Samples averaged over steps as the server does: these begin at multiples of the step. */
function averaged<F extends string>(samples: readonly Sample<F>[], step: number): readonly Sample<F>[] {
  const steps = new Map<number, [Sample<F>, ...Sample<F>[]]>();
  for (const sample of samples) {
    const number = Math.floor(sample.time / step);
    const known = steps.get(number);
    if (known === undefined) steps.set(number, [sample]);
    else known.push(sample);
  }
  return [...steps.values()].map((each) =>
    sampleAt(mean(each.map((sample) => sample.time)) ?? 0, figuresOf(each[0]), (_, figure) =>
      mean(each.map((sample) => (sample as Figures<F>)[figure])),
    ),
  );
}

function mean(values: readonly (number | null)[]): number | null {
  return statistics(values)?.average ?? null;
}

function sampleAt<F extends string, T>(
  time: number,
  figures: readonly (readonly [F, T])[],
  of: (from: T, figure: F) => number | null,
): Sample<F> {
  const found = figures.map(([figure, from]) => [figure, of(from, figure)]);
  return { time, ...(Object.fromEntries(found) as Figures<F>) };
}

/** ms of event time that pass in one of the clock, at each sample; null: unknown, as at its start or a setback. */
export function speedsOf(samples: readonly Sample[]): readonly (number | null)[] {
  let first = 0;
  return samples.map(({ time, watermark }, index) => {
    const before = samples[index - 1]?.watermark ?? null;
    if (watermark === null || before === null || watermark < before) first = index;
    while (time - (samples[first + 1]?.time ?? time) >= SPEED_MS) first += 1;
    const since = samples[first];
    if (watermark === null || since === undefined || since.watermark === null) return null;
    const passed = time - since.time;
    return passed < SPEED_MS ? null : (watermark - since.watermark) / passed;
  });
}

/** Whether sources were live when event time was seen last. */
export function isLive(samples: readonly Sample[]): boolean {
  return (samples.findLast(({ watermark }) => watermark !== null)?.lag ?? null) !== null;
}

/** What of a job's events is marked on charts; oldest first. */
export function marksOf(events: readonly TimelineEvent[]): readonly Mark[] {
  return events
    .filter(({ kind, is_failed }) => is_failed || MARKED.includes(kind))
    .map(({ begin, text, is_failed }) => ({ time: begin, text, isFailed: is_failed }));
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
export function niceCeiling(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= value) ?? 10;
  return step * power;
}

/** The same of bytes: what is shown in KiB must be round in KiB. */
export function niceBytes(value: number): number {
  return value > 1024 ? 1024 * niceBytes(value / 1024) : niceCeiling(value);
}

/** The same of a number of things: there is no half of one in the middle of the axis. */
export function niceCount(value: number): number {
  return Math.max(2, 2 * niceCeiling(value / 2));
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const DURATIONS = [
  ...[2, 10, 20, 100, 200],
  ...[1, 2, 4, 10, 20].map((seconds) => seconds * SECOND_MS),
  ...[1, 2, 4, 10, 20].map((minutes) => minutes * MINUTE_MS),
  ...[1, 2, 4, 12].map((hours) => hours * HOUR_MS),
];

/** The same of ms: it is round in the unit in which it is shown, and so is its half. */
export function niceDuration(value: number): number {
  return DURATIONS.find((each) => each >= value) ?? DAY_MS * niceCount(value / DAY_MS);
}
