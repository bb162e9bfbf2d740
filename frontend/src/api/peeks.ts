/** Peeks: rows of an edge of a running job, for as long as somebody asks for them. */

import type { Nothing, PeekAnswer, PeekBegun, PeekRequest } from '../gen/contract';
import { call } from './client';

export function beginPeek(jobId: string, wanted: PeekRequest): Promise<PeekBegun> {
  return call('POST /api/v1/jobs/{job_id}/peeks', { path: { job_id: jobId }, body: wanted });
}

/** @param after number of the last element that is known; 0: none is. */
export function fetchPeek(jobId: string, peekId: string, after: number): Promise<PeekAnswer> {
  return call('GET /api/v1/jobs/{job_id}/peeks/{peek_id}', {
    path: { job_id: jobId, peek_id: peekId },
    query: { after },
  });
}

export function endPeek(jobId: string, peekId: string): Promise<Nothing> {
  return call('DELETE /api/v1/jobs/{job_id}/peeks/{peek_id}', { path: { job_id: jobId, peek_id: peekId } });
}
