/**
 * History of metrics that a user has picked for charts: what the page has seen of them since, by job and vertex, behind
 * what the server has kept.
 */

import type { MetricHistory, VertexMetrics } from '../gen/contract';
import { record } from '../model/history';
import { summarise } from '../model/metricTable';

/** Over the subtasks. */
export interface MetricSample {
  /** Epoch ms. */
  readonly time: number;
  readonly least: number;
  readonly average: number;
  readonly greatest: number;
}

/** Maximum number of histories; those that were recorded least recently are dropped. */
const MAX_METRICS = 64;

const histories = new Map<string, readonly MetricSample[]>();
const NO_SAMPLES: readonly never[] = [];

export function recordPicked(
  jobId: string,
  vertexId: string,
  picked: readonly string[],
  { metrics }: VertexMetrics,
  time: number,
): void {
  for (const { id, values } of metrics) {
    const summary = picked.includes(id) ? summarise(values) : null;
    if (summary === null) continue;
    const [least, greatest, sum] = summary;
    const key = keyOf(jobId, vertexId, id);
    const next = record(histories.get(key) ?? NO_SAMPLES, {
      time,
      least,
      average: sum / Object.keys(values).length,
      greatest,
    });
    histories.delete(key);
    histories.set(key, next);
    const oldest = histories.keys().next().value;
    if (histories.size > MAX_METRICS && oldest !== undefined) histories.delete(oldest);
  }
}

export function pickedHistory(jobId: string, vertexId: string, id: string): readonly MetricSample[] {
  return histories.get(keyOf(jobId, vertexId, id)) ?? NO_SAMPLES;
}

const STATISTICS = ['least', 'average', 'greatest'] as const;

/** Series of the server's history of these metrics: it keeps them from when they are first asked for. */
export function pickedSeries(vertexId: string, picked: readonly string[]): string {
  return picked.flatMap((id) => STATISTICS.map((statistic) => seriesOf(vertexId, id, statistic))).join(',');
}

/** What the server has kept of a metric before the page saw it, and then what that has seen. */
export function withKept(
  kept: MetricHistory | undefined,
  vertexId: string,
  id: string,
  seen: readonly MetricSample[],
): readonly MetricSample[] {
  if (kept === undefined) return seen;
  const [leasts, averages, greatests] = STATISTICS.map((statistic) => kept.series[seriesOf(vertexId, id, statistic)]);
  const first = seen[0]?.time ?? Infinity;
  const before = kept.times.flatMap((time, index) => {
    const [least, average, greatest] = [leasts?.[index], averages?.[index], greatests?.[index]];
    const isKnown = typeof least === 'number' && typeof average === 'number' && typeof greatest === 'number';
    return isKnown && time < first ? [{ time, least, average, greatest }] : [];
  });
  return [...before, ...seen];
}

function seriesOf(vertexId: string, id: string, statistic: (typeof STATISTICS)[number]): string {
  return `p.${vertexId}.${id}.${statistic}`;
}

function keyOf(...parts: readonly string[]): string {
  return JSON.stringify(parts);
}
