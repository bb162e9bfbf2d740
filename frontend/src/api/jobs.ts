/** Jobs and the cluster, over REST. */

import type {
  Autoscaler,
  ClusterDocument,
  JobConfig,
  JobDocument,
  JobManagers,
  LogFiles,
  LogMatch,
  LogSearch,
  LogText,
  TaskManagerDetail,
} from '../gen/live';
import { FLINK, PRODUCT, request } from './client';

export function fetchCluster(): Promise<ClusterDocument> {
  return request(`${PRODUCT}/cluster`);
}

export function fetchJobManagers(): Promise<JobManagers> {
  return request(`${PRODUCT}/jobmanagers`);
}

export function fetchJob(id: string): Promise<JobDocument> {
  return request(`${PRODUCT}/jobs/${encodeURIComponent(id)}/live`);
}

export function fetchJobConfig(id: string): Promise<JobConfig> {
  return request(`${FLINK}/jobs/${encodeURIComponent(id)}/config`);
}

export function cancelJob(id: string): Promise<void> {
  return request(`${FLINK}/jobs/${encodeURIComponent(id)}?mode=cancel`, { method: 'PATCH' });
}

export function fetchAutoscaler(id: string): Promise<Autoscaler> {
  return request(`${PRODUCT}/jobs/${encodeURIComponent(id)}/autoscaler`);
}

export function switchAutoscaler(id: string, enabled: boolean): Promise<Autoscaler> {
  return request(`${PRODUCT}/jobs/${encodeURIComponent(id)}/autoscaler`, { method: 'PUT', body: { enabled } });
}

export function fetchTaskManager(id: string): Promise<TaskManagerDetail> {
  return request(`${FLINK}/taskmanagers/${encodeURIComponent(id)}`);
}

export function fetchLogFiles(id: string): Promise<LogFiles> {
  return request(`${PRODUCT}/jobs/${encodeURIComponent(id)}/logs`);
}

/** Reads text from a byte offset; a negative one counts from the end of the file. */
export function fetchLog(id: string, name: string, offset: number, limit: number): Promise<LogText> {
  const path = name.split('/').map(encodeURIComponent).join('/');
  return request(`${PRODUCT}/jobs/${encodeURIComponent(id)}/logs/${path}?offset=${offset}&limit=${limit}`);
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
    const parameters = new URLSearchParams({ name, query, from: String(from), limit: String(limit) });
    const url = `${PRODUCT}/jobs/${encodeURIComponent(id)}/log-search?${parameters.toString()}`;
    const part = await request<LogSearch>(url, { signal });
    matches.push(...part.matches);
    if (part.is_complete || part.searched_to <= from) return { matches, isComplete: true };
    if (matches.length >= MAX_MATCHES) return { matches, isComplete: false };
    from = part.searched_to;
  }
}
