/** History of all vertices of the viewed jobs, kept while the page is open. */

import type { JobDocument } from '../gen/live';
import { type Sample, record } from '../model/history';

/** Maximum number of jobs; the least recently viewed are dropped first. */
const MAX_JOBS = 8;

const jobs = new Map<string, Map<string, readonly Sample[]>>();
const EMPTY: readonly Sample[] = [];

/** Call once a second: an unchanged value is a sample, too. `time` is the server's, epoch ms. */
export function recordJob(job: JobDocument, time: number): void {
  const vertices = jobs.get(job.id) ?? new Map<string, readonly Sample[]>();
  // insertion order is the order of use
  jobs.delete(job.id);
  jobs.set(job.id, vertices);
  for (const vertex of job.vertices) {
    vertices.set(vertex.id, record(vertices.get(vertex.id) ?? EMPTY, vertex.metrics, time));
  }
  const oldest = jobs.keys().next().value;
  if (jobs.size > MAX_JOBS && oldest !== undefined) jobs.delete(oldest);
}

export function vertexHistory(jobId: string, vertexId: string): readonly Sample[] {
  return jobs.get(jobId)?.get(vertexId) ?? EMPTY;
}
