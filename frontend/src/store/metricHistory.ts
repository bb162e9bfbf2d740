/** History of all vertices and edges of the viewed jobs, kept while the page is open. */

import type { LiveJob } from '../gen/contract';
import { behindOf, liveLagOf } from '../model/eventTime';
import { type EdgeSample, type Sample, edgeSampleOf, record, sampleOf } from '../model/history';
import { eventTimeOf, metricsOf, metricsOfEdge } from '../model/job';

/** Maximum number of jobs; the least recently viewed are dropped first. */
const MAX_JOBS = 8;

interface Seen {
  readonly vertices: Map<string, readonly Sample[]>;
  readonly edges: Map<string, readonly EdgeSample[]>;
}

const jobs = new Map<string, Seen>();
const NO_SAMPLES: readonly never[] = [];

/** Call once a second: an unchanged value is a sample, too. `time` is the server's, epoch ms. */
export function recordJob(job: LiveJob, time: number): void {
  const { id: jobId } = job.static;
  const eventTime = eventTimeOf(job);
  const known: Seen = jobs.get(jobId) ?? { vertices: new Map(), edges: new Map() };
  // insertion order is the order of use
  jobs.delete(jobId);
  jobs.set(jobId, known);
  const { vertices, edges } = known;
  for (const [id, figures] of Object.entries(job.moving.figures)) {
    const metrics = metricsOf(figures);
    const lag = liveLagOf(metrics.watermark, job.now, eventTime, id);
    const sample = sampleOf(metrics, lag, behindOf(metrics.watermark, eventTime, id), time);
    vertices.set(id, record(vertices.get(id) ?? NO_SAMPLES, sample));
  }
  for (const id of Object.keys(job.moving.edges)) {
    const metrics = metricsOfEdge(job, id);
    if (metrics !== undefined) edges.set(id, record(edges.get(id) ?? NO_SAMPLES, edgeSampleOf(metrics, time)));
  }
  const oldest = jobs.keys().next().value;
  if (jobs.size > MAX_JOBS && oldest !== undefined) jobs.delete(oldest);
}

export function vertexHistory(jobId: string, vertexId: string): readonly Sample[] {
  return jobs.get(jobId)?.vertices.get(vertexId) ?? NO_SAMPLES;
}

export function edgeHistory(jobId: string, edge: string): readonly EdgeSample[] {
  return jobs.get(jobId)?.edges.get(edge) ?? NO_SAMPLES;
}
