/** History of all vertices of the viewed jobs, kept while the page is open. */

import type { LiveJob } from '../gen/contract';
import { type Sample, record } from '../model/history';
import { lagOf, metricsOf } from '../model/job';

/** Maximum number of jobs; the least recently viewed are dropped first. */
const MAX_JOBS = 8;

const jobs = new Map<string, Map<string, readonly Sample[]>>();
const EMPTY: readonly Sample[] = [];

/** Call once a second: an unchanged value is a sample, too. `time` is the server's, epoch ms. */
export function recordJob({ static: { id: jobId }, moving, now }: LiveJob, time: number): void {
  const vertices = jobs.get(jobId) ?? new Map<string, readonly Sample[]>();
  // insertion order is the order of use
  jobs.delete(jobId);
  jobs.set(jobId, vertices);
  for (const [id, figures] of Object.entries(moving.figures)) {
    const metrics = metricsOf(figures);
    vertices.set(id, record(vertices.get(id) ?? EMPTY, metrics, lagOf(metrics.watermark, now), time));
  }
  const oldest = jobs.keys().next().value;
  if (jobs.size > MAX_JOBS && oldest !== undefined) jobs.delete(oldest);
}

export function vertexHistory(jobId: string, vertexId: string): readonly Sample[] {
  return jobs.get(jobId)?.get(vertexId) ?? EMPTY;
}
