/**
 * What the page shows of the cluster, made of its live document. Pure. A job keeps its identity until something of it
 * changes, and so does the whole list.
 */

import type { JobSummary, LiveCluster, LiveJobSummary, TaskManagerSummary } from '../gen/contract';

export interface Cluster {
  readonly now: number;
  readonly slots_total: number;
  readonly slots_available: number;
  readonly taskmanagers: readonly TaskManagerSummary[];
  /** Newest first. */
  readonly jobs: readonly JobSummary[];
}

const clusters = new WeakMap<LiveCluster, Cluster>();
const summaries = new WeakMap<LiveJobSummary, JobSummary>();

export function clusterOf(live: LiveCluster): Cluster {
  const known = clusters.get(live);
  if (known !== undefined) return known;
  const { now, slots_total, slots_available } = live;
  const jobs = Object.entries(live.jobs)
    .map(([id, job]) => summaryOf(id, job))
    .toSorted((one, other) => other.start_time - one.start_time || (one.id < other.id ? -1 : 1));
  const taskmanagers = Object.values(live.taskmanagers).toSorted(
    (one, other) => one.registered_at - other.registered_at,
  );
  const cluster = { now, slots_total, slots_available, taskmanagers, jobs };
  clusters.set(live, cluster);
  return cluster;
}

function summaryOf(id: string, live: LiveJobSummary): JobSummary {
  const known = summaries.get(live);
  if (known !== undefined) return known;
  const { figures, last_checkpoint, limit, ...rest } = live;
  const [records_in_per_second, behind, lag] = figures;
  const summary = {
    ...rest,
    id,
    tasks_total: Object.values(live.tasks).reduce((sum, count) => sum + count, 0),
    // of a job that runs, the page counts it itself
    duration: live.end_time < 0 ? 0 : live.end_time - live.start_time,
    last_checkpoint: last_checkpoint ?? null,
    limit: limit ?? null,
    records_in_per_second,
    behind,
    lag,
  };
  summaries.set(live, summary);
  return summary;
}
