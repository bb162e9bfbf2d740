/** Metrics and accumulators of a vertex, over REST. */

import type { SubtasksAccumulators, VertexAccumulators, VertexMetrics } from '../gen/live';
import { FLINK, PRODUCT, request } from './client';

export function fetchVertexMetrics(jobId: string, vertexId: string): Promise<VertexMetrics> {
  return request(`${PRODUCT}/${vertexPath(jobId, vertexId)}/metrics`);
}

export function fetchVertexAccumulators(jobId: string, vertexId: string): Promise<VertexAccumulators> {
  return request(`${FLINK}/${vertexPath(jobId, vertexId)}/accumulators`);
}

export function fetchSubtasksAccumulators(jobId: string, vertexId: string): Promise<SubtasksAccumulators> {
  return request(`${FLINK}/${vertexPath(jobId, vertexId)}/subtasks/accumulators`);
}

function vertexPath(jobId: string, vertexId: string): string {
  return `jobs/${encodeURIComponent(jobId)}/vertices/${encodeURIComponent(vertexId)}`;
}
