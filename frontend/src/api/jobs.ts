/** Jobs and the cluster, over REST. */

import type {
  Autoscaler,
  FailureGroups,
  JobConfig,
  JobLog,
  JobManagers,
  JobTimeline,
  LiveCluster,
  LiveJob,
  LiveOperators,
  LiveVertex,
  LogFiles,
  LogMatch,
  LogText,
  Routes,
  TaskManagerDetail,
} from '../gen/contract';
import { isTerminal } from '../model/states';
import { call } from './client';

const POLL_MS = 500;

export function fetchClusterTopic(): Promise<LiveCluster> {
  return call('GET /api/v1/cluster/topic');
}

export function fetchJobManagers(): Promise<JobManagers> {
  return call('GET /api/v1/jobmanagers');
}

/** The options of the cluster. */
export async function fetchClusterOptions(): Promise<(readonly [string, string])[]> {
  return (await call('GET /v1/jobmanager/config')).map(({ key, value }) => [key, value]);
}

export function fetchJobTopic(id: string): Promise<LiveJob> {
  return call('GET /api/v1/jobs/{job_id}/topic', { path: { job_id: id } });
}

export function fetchOperatorsTopic(id: string): Promise<LiveOperators> {
  return call('GET /api/v1/jobs/{job_id}/operators/topic', { path: { job_id: id } });
}

export function fetchVertexTopic(id: string, vertexId: string): Promise<LiveVertex> {
  return call('GET /api/v1/jobs/{job_id}/vertices/{vertex_id}/topic', { path: { job_id: id, vertex_id: vertexId } });
}

/** Failures of a job, equal ones together. */
export function fetchFailures(id: string): Promise<FailureGroups> {
  return call('GET /api/v1/jobs/{job_id}/failures', { path: { job_id: id } });
}

/** What a job has gone through. */
export function fetchTimeline(id: string): Promise<JobTimeline> {
  return call('GET /api/v1/jobs/{job_id}/timeline', { path: { job_id: id } });
}

export function fetchJobConfig(id: string): Promise<JobConfig> {
  return call('GET /v1/jobs/{job_id}/config', { path: { job_id: id } });
}

export async function cancelJob(id: string): Promise<void> {
  await call('PATCH /v1/jobs/{job_id}', { path: { job_id: id }, query: { mode: 'cancel' } });
}

/** Waits until a job has ended. Throws ApiError if its state cannot be read. */
export async function waitForEnd(id: string): Promise<void> {
  while (!isTerminal((await call('GET /v1/jobs/{job_id}/status', { path: { job_id: id } })).status)) {
    await new Promise((resume) => setTimeout(resume, POLL_MS));
  }
}

export function fetchAutoscaler(id: string): Promise<Autoscaler> {
  return call('GET /api/v1/jobs/{job_id}/autoscaler', { path: { job_id: id } });
}

export function switchAutoscaler(id: string, enabled: boolean): Promise<Autoscaler> {
  return call('PUT /api/v1/jobs/{job_id}/autoscaler', { path: { job_id: id }, body: { enabled } });
}

export function fetchTaskManager(id: string): Promise<TaskManagerDetail> {
  return call('GET /v1/taskmanagers/{taskmanager_id}', { path: { taskmanager_id: id } });
}

export function fetchLogFiles(id: string): Promise<LogFiles> {
  return call('GET /api/v1/jobs/{job_id}/logs', { path: { job_id: id } });
}

/** Entries of all logs of a job by time; a request searches only so much, and its cursor says where to go on. */
export function searchJobLog(
  id: string,
  query: Routes['GET /api/v1/jobs/{job_id}/logs/search']['query'],
  signal: AbortSignal,
): Promise<JobLog> {
  return call('GET /api/v1/jobs/{job_id}/logs/search', { path: { job_id: id }, query, signal });
}

/** Reads text from a byte offset; a negative one counts from the end of the file. */
export function fetchLog(id: string, name: string, offset: number, limit: number): Promise<LogText> {
  const path = { job_id: id, name: name.split('/') };
  return call('GET /api/v1/jobs/{job_id}/logs/{name}', { path, query: { offset, limit } });
}

/** Enough to step through; with more matches, users refine the search. */
const MAX_MATCHES = 1_000;

export interface FoundLines {
  readonly matches: readonly LogMatch[];
  /** false: there are more after the last one. */
  readonly isComplete: boolean;
}

/** Searches the whole file, ignoring case, to its end or to the thousandth match. */
export async function searchLog(id: string, name: string, query: string, signal: AbortSignal): Promise<FoundLines> {
  const matches: LogMatch[] = [];
  let from = 0;
  for (;;) {
    const limit = MAX_MATCHES - matches.length;
    const part = await call('GET /api/v1/jobs/{job_id}/log-search', {
      path: { job_id: id },
      query: { name, query, from, limit },
      signal,
    });
    matches.push(...part.matches);
    if (part.is_complete || part.searched_to <= from) return { matches, isComplete: true };
    if (matches.length >= MAX_MATCHES) return { matches, isComplete: false };
    from = part.searched_to;
  }
}
