/** The state browser: what state a snapshot of a job has, and what is in it for a key. */

import type { StateContents, StateExport, StateKeys, StateLookup, StateLookupRequest } from '../gen/contract';
import { call } from './client';

/** A keyed state; `snapshot` is the location of one, or empty: the newest checkpoint. */
export interface StatePlace {
  readonly snapshot: string;
  readonly operator: string;
  readonly state: string;
}

export function fetchState(jobId: string, snapshot: string): Promise<StateContents> {
  return call('GET /api/v1/jobs/{job_id}/state', { path: { job_id: jobId }, query: { snapshot } });
}

export function fetchFirstKeys(jobId: string, place: StatePlace): Promise<StateKeys> {
  return call('POST /api/v1/jobs/{job_id}/state/keys', { path: { job_id: jobId }, body: { ...place } });
}

/** A key as JSON of its type, or as the server has told it. */
export type WantedKey = Pick<StateLookupRequest, 'key' | 'key_type'> | Pick<StateLookupRequest, 'encoded_key'>;

export function lookUp(jobId: string, place: StatePlace, key: WantedKey): Promise<StateLookup> {
  return call('POST /api/v1/jobs/{job_id}/state/lookup', { path: { job_id: jobId }, body: { ...place, ...key } });
}

/** What a key has as CSV; null: keys that have the state. */
export function exportState(jobId: string, place: StatePlace, key: WantedKey | null): Promise<StateExport> {
  return call('POST /api/v1/jobs/{job_id}/state/export', { path: { job_id: jobId }, body: { ...place, ...key } });
}
