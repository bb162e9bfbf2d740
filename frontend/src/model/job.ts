/**
 * What the page shows of a job, selected from its live document. Pure.
 *
 * A merge patch replaces only what it names, so everything here keeps its identity until its own part of the document
 * changes: components that read through these selectors render only then.
 */

import type {
  EdgeFigures,
  EdgeMetrics,
  Figures,
  JobEventTime,
  JobException,
  LiveJob,
  LiveJobStatus,
  LiveOperator,
  LiveOperators,
  LiveSubtaskStatus,
  LiveVertex,
  LiveVertexStatus,
  MovingJob,
  OperatorFigures,
  OperatorMetrics,
  Stall,
  StaticJob,
  StaticVertex,
  Watermark,
} from '../gen/contract';
import { upToDate } from './eventTime';

/** Figures by name; the units are those of `Figures`. */
export interface Metrics {
  readonly records_in: number;
  readonly records_out: number;
  readonly bytes_in: number;
  readonly bytes_out: number;
  readonly records_in_per_second: number;
  readonly records_out_per_second: number;
  readonly bytes_in_per_second: number;
  readonly bytes_out_per_second: number;
  readonly busy: number;
  readonly idle: number;
  readonly back_pressured: number;
  readonly watermark: Watermark;
  /** Bytes in the latest completed checkpoint or savepoint; null: unknown. */
  readonly state_size: number | null;
}

/** A job without its vertices. */
export type Job = Pick<StaticJob, 'id' | 'name' | 'start_time' | 'max_parallelism'> & LiveJobStatus;

/** A vertex without its figures. */
export type Vertex = Omit<StaticVertex, 'operators'> &
  LiveVertexStatus & { readonly id: string; readonly operators: readonly Operator[] };

export type Operator = LiveOperator & { readonly uid: string };

/** A subtask without its figures. */
export type Subtask = LiveSubtaskStatus & { readonly index: number };

export const jobOf = joined((fixed: StaticJob, status: LiveJobStatus): Job => {
  const { id, name, start_time, max_parallelism } = fixed;
  return { id, name, start_time, max_parallelism, ...status };
});

/** Sources first; the same array until a vertex changes in something other than its figures. */
export const verticesOf = joined((fixed: StaticJob, moving: MovingJob['vertices']): readonly Vertex[] =>
  fixed.order.map((id) => vertexOf(fixed, moving, id)).filter((vertex) => vertex !== undefined),
);

/** Undefined: the job has no such vertex. */
export function vertexOf(fixed: StaticJob, moving: MovingJob['vertices'], id: string): Vertex | undefined {
  const status = moving[id];
  return status === undefined ? undefined : joinedVertex(fixed, status, id);
}

const joinedVertex = joined((fixed: StaticJob, status: LiveVertexStatus, id: string): Vertex | undefined => {
  const vertex = fixed.vertices[id];
  if (vertex === undefined) return undefined;
  const operators = vertex.operators.flatMap((uid) => {
    const operator = fixed.operators[uid];
    return operator === undefined ? [] : [{ uid, ...operator }];
  });
  return { ...vertex, ...status, id, operators };
});

/** Undefined: the job has no such vertex. */
export function metricsOfVertex({ moving }: LiveJob, id: string): Metrics | undefined {
  const figures = moving.figures[id];
  return figures === undefined ? undefined : metricsOf(figures);
}

/** Undefined: nothing is known of the edge, such as in a document of an earlier release. */
export function metricsOfEdge({ moving }: LiveJob, edge: string | undefined): EdgeMetrics | undefined {
  const figures = moving.edges[edge ?? ''];
  return figures === undefined ? undefined : edgeMetricsOf(figures);
}

/** Undefined: the server says nothing of it. */
export function eventTimeOf({ moving, derived }: LiveJob): JobEventTime | undefined {
  return derived.event_time === undefined ? undefined : timeOf(derived.event_time, moving.figures);
}

const timeOf = joined((time: JobEventTime, figures: LiveJob['moving']['figures']): JobEventTime =>
  upToDate(
    time,
    Object.values(figures).map((each) => metricsOf(each).watermark),
  ),
);

/** Newest first. */
export const exceptionsOf = kept((exceptions: Record<string, JobException>): readonly JobException[] =>
  Object.entries(exceptions)
    .toSorted(([one, a], [other, b]) => b.timestamp - a.timestamp || numberOf(other) - numberOf(one))
    .map(([, exception]) => exception),
);

export const stallsOf = kept((stalls: Record<string, Stall>): readonly Stall[] => Object.values(stalls));

/** By index. */
export const subtasksOf = kept((subtasks: LiveVertex['subtasks']): readonly Subtask[] =>
  Object.entries(subtasks)
    .map(([index, status]) => subtaskOf(status, Number(index)))
    .toSorted((one, other) => one.index - other.index),
);

const subtaskOf = kept((status: LiveSubtaskStatus, index: number): Subtask => ({ ...status, index }));

export const metricsOf = kept((figures: Figures): Metrics => {
  const [records_in, records_out, bytes_in, bytes_out, ...rest] = figures;
  const [records_in_per_second, records_out_per_second, bytes_in_per_second, bytes_out_per_second, ...times] = rest;
  const [busy, idle, back_pressured, watermark, state_size] = times;
  return {
    records_in,
    records_out,
    bytes_in,
    bytes_out,
    records_in_per_second,
    records_out_per_second,
    bytes_in_per_second,
    bytes_out_per_second,
    busy,
    idle,
    back_pressured,
    watermark,
    state_size,
  };
});

/** A job's document with the figures of its operators, which are a topic of their own. */
export interface JobWithOperators extends LiveJob {
  /** By uid; empty until they have arrived. */
  readonly operators: LiveOperators['figures'];
}

export function withOperators(job: LiveJob, operators: LiveOperators | undefined): JobWithOperators {
  return { ...job, operators: operators?.figures ?? {} };
}

/** Undefined: nothing is known of the operator, such as in a document of an earlier release. */
export function metricsOfOperator({ operators }: JobWithOperators, uid: string): OperatorMetrics | undefined {
  const figures = operators[uid];
  return figures === undefined ? undefined : operatorMetricsOf(figures);
}

const operatorMetricsOf = kept((figures: OperatorFigures): OperatorMetrics => {
  const [records_in, records_out, records_in_per_second, records_out_per_second, watermark] = figures;
  return { records_in, records_out, records_in_per_second, records_out_per_second, watermark };
});

const edgeMetricsOf = kept((figures: EdgeFigures): EdgeMetrics => {
  const [records_sent, records_received, records_per_second, bytes_per_second, ...rest] = figures;
  const [queued_buffers, queued_bytes, watermark] = rest;
  return {
    records_sent,
    records_received,
    records_per_second,
    bytes_per_second,
    queued_buffers,
    queued_bytes,
    watermark,
  };
});

function numberOf(key: string): number {
  return Number(key.slice(key.lastIndexOf('-') + 1));
}

/** The function, computed once for each object, which has one key for all its life. */
function kept<P extends object, R, K extends readonly unknown[]>(
  compute: (part: P, ...key: K) => R,
): (part: P, ...key: K) => R {
  const known = new WeakMap<P, R>();
  return (part, ...key) => {
    const found = known.get(part);
    if (found !== undefined) return found;
    const result = compute(part, ...key);
    known.set(part, result);
    return result;
  };
}

/** The function, computed again for a moving part only when that or the fixed one has changed. */
function joined<F extends object, M extends object, R, K extends readonly unknown[]>(
  compute: (fixed: F, moving: M, ...key: K) => R,
): (fixed: F, moving: M, ...key: K) => R {
  const known = new WeakMap<M, { readonly fixed: F; readonly result: R }>();
  return (fixed, moving, ...key) => {
    const found = known.get(moving);
    if (found?.fixed === fixed) return found.result;
    const result = compute(fixed, moving, ...key);
    known.set(moving, { fixed, result });
    return result;
  };
}
