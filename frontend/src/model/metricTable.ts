/** All metrics of a vertex as a table: by operator, filtered, values as text. */

import type { MetricValue, VertexMetrics } from '../gen/contract';
import { t } from '../texts/t';
import { NOTHING, formatCount } from './format';

export interface MetricRow {
  /** Flink's id, as used by REST and other tools. */
  readonly id: string;
  /** The id without its operator. */
  readonly name: string;
  readonly values: Readonly<Record<string, MetricValue>>;
}

export interface MetricGroup {
  /** The operator's id; empty for the task. */
  readonly key: string;
  readonly title: string;
  readonly rows: readonly MetricRow[];
}

const TASK = t('Task');
/** Extremes of a long: no watermark yet, and the final watermark. */
const NONE_YET = '-9223372036854775808';
const NONE_TO_COME = '9223372036854775807';
const fractions = new Intl.NumberFormat('en-US', { maximumFractionDigits: 2 });

/**
 * Rows of each operator, in the order of the chain, then the task's own; groups without rows are left out.
 * `filter` is searched in a row's id, ignoring case.
 */
export function groupMetrics(
  metrics: VertexMetrics['metrics'],
  operators: VertexMetrics['operators'],
  filter: string,
): MetricGroup[] {
  const wanted = filter.trim().toLowerCase();
  const all = [...operators, { id: '', name: TASK, scope: '' }];
  const groups = all.map(({ id, name }) => ({ key: id, title: name, rows: [] as MetricRow[] }));
  // the longest first: one scope may begin with another
  const prefixes = all.map(({ scope }, index) => [index, scope === '' ? '' : `${scope}.`] as const);
  const bySize = prefixes.toSorted(([, a], [, b]) => b.length - a.length);
  for (const { id, values } of metrics) {
    if (!id.toLowerCase().includes(wanted)) continue;
    const [index, prefix] = bySize.find(([, each]) => id.startsWith(each)) ?? [all.length - 1, ''];
    groups[index]?.rows.push({ id, name: id.slice(prefix.length), values });
  }
  return groups.filter(({ rows }) => rows.length > 0);
}

export function formatMetric(value: MetricValue | undefined): string {
  if (value === undefined || value === NONE_YET) return NOTHING;
  if (value === NONE_TO_COME) return 'max';
  if (typeof value !== 'number') return String(value);
  return Number.isInteger(value) ? formatCount(value) : fractions.format(value);
}

/** Least, greatest and sum of the values; null unless all of them are numbers. */
export function summarise(values: Readonly<Record<string, MetricValue>>): [number, number, number] | null {
  const numbers = Object.values(values);
  if (numbers.length === 0 || !numbers.every((value) => typeof value === 'number')) return null;
  return [Math.min(...numbers), Math.max(...numbers), numbers.reduce((a, b) => a + b, 0)];
}
