/** Metrics, their history, accumulators and stacks of a vertex, over REST. */

import type {
  MetricHistory,
  StacksAnswer,
  StacksWanted,
  SubtasksAccumulators,
  TaskManagerHistory,
  VertexAccumulators,
  VertexMetrics,
} from '../gen/contract';
import { call } from './client';

export function fetchVertexMetrics(jobId: string, vertexId: string): Promise<VertexMetrics> {
  return call('GET /api/v1/jobs/{job_id}/vertices/{vertex_id}/metrics', vertex(jobId, vertexId));
}

export function fetchVertexAccumulators(jobId: string, vertexId: string): Promise<VertexAccumulators> {
  return call('GET /v1/jobs/{job_id}/vertices/{vertex_id}/accumulators', vertex(jobId, vertexId));
}

export function fetchSubtasksAccumulators(jobId: string, vertexId: string): Promise<SubtasksAccumulators> {
  return call('GET /v1/jobs/{job_id}/vertices/{vertex_id}/subtasks/accumulators', vertex(jobId, vertexId));
}

/**
 * Times are the server's, epoch ms.
 *
 * @param series names, with commas between them.
 * @param to now if it is undefined.
 */
export function fetchHistory(
  jobId: string,
  series: string,
  from: number,
  to: number | undefined,
): Promise<MetricHistory> {
  const query = { series, from: Math.round(from), ...(to === undefined ? {} : { to }) };
  return call('GET /api/v1/jobs/{job_id}/history', { path: { job_id: jobId }, query });
}

/** Times are the server's, epoch ms; up to now. */
export function fetchTaskManagerHistory(taskManagerId: string, from: number): Promise<TaskManagerHistory> {
  return call('GET /api/v1/taskmanagers/{taskmanager_id}/history', {
    path: { taskmanager_id: taskManagerId },
    query: { from: Math.round(from) },
  });
}

export function fetchStacks(jobId: string, vertexId: string): Promise<StacksAnswer> {
  return call('GET /api/v1/jobs/{job_id}/vertices/{vertex_id}/stacks', vertex(jobId, vertexId));
}

/** Have the subtasks sampled for a time, ms. */
export function sampleStacks(jobId: string, vertexId: string, duration: number): Promise<StacksWanted> {
  return call('POST /api/v1/jobs/{job_id}/vertices/{vertex_id}/stacks', {
    ...vertex(jobId, vertexId),
    body: { duration },
  });
}

function vertex(jobId: string, vertexId: string) {
  return { path: { job_id: jobId, vertex_id: vertexId } };
}
