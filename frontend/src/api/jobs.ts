/** Jobs and the cluster, as REST tells them. */

import type { ClusterDocument, JobConfig, JobDocument, LogFiles, LogText, TaskManagerDetail } from '../gen/live';
import { FLINK, PRODUCT, request } from './client';

export function fetchCluster(): Promise<ClusterDocument> {
  return request(`${PRODUCT}/cluster`);
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

export function fetchTaskManager(id: string): Promise<TaskManagerDetail> {
  return request(`${FLINK}/taskmanagers/${encodeURIComponent(id)}`);
}

export function fetchLogFiles(id: string): Promise<LogFiles> {
  return request(`${PRODUCT}/jobs/${encodeURIComponent(id)}/logs`);
}

/** Text from a byte offset on; a negative one counts from the end of the file. */
export function fetchLog(id: string, name: string, offset: number, limit: number): Promise<LogText> {
  const path = name.split('/').map(encodeURIComponent).join('/');
  return request(`${PRODUCT}/jobs/${encodeURIComponent(id)}/logs/${path}?offset=${offset}&limit=${limit}`);
}
