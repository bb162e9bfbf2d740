/** Metrics and accumulators of a vertex, over REST. */

import type { SubtasksAccumulators, VertexAccumulators, VertexMetrics } from '../gen/contract';
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

function vertex(jobId: string, vertexId: string) {
  return { path: { job_id: jobId, vertex_id: vertexId } };
}
