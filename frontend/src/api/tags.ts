/** Tags of jobs, over REST. */

import { call } from './client';

/** By job, of those in the overview that have any. */
export async function fetchAllTags(): Promise<Record<string, string[]>> {
  return (await call('GET /api/v1/tags')).jobs;
}

/** Adds and removes what differs from the tags that were edited; what others have changed meanwhile stays so. */
export async function changeTags(id: string, was: readonly string[], tags: readonly string[]): Promise<string[]> {
  const body = { tags: [...tags], was: [...was] };
  return (await call('PUT /api/v1/jobs/{job_id}/tags', { path: { job_id: id }, body })).tags;
}

export async function fetchTags(id: string): Promise<string[]> {
  return (await call('GET /api/v1/jobs/{job_id}/tags', { path: { job_id: id } })).tags;
}
