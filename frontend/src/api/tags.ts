/** Tags of jobs, over REST. */

import { call } from './client';

/** By job, of those in the overview that have any. */
export async function fetchAllTags(): Promise<Record<string, string[]>> {
  return (await call('GET /api/v1/tags')).jobs;
}

export async function setTags(id: string, tags: readonly string[]): Promise<string[]> {
  return (await call('PUT /api/v1/jobs/{job_id}/tags', { path: { job_id: id }, body: { tags: [...tags] } })).tags;
}

export async function fetchTags(id: string): Promise<string[]> {
  return (await call('GET /api/v1/jobs/{job_id}/tags', { path: { job_id: id } })).tags;
}
