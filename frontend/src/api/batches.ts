/** The last batches of a job in micro-batches. */

import type { Batches } from '../gen/contract';
import { call } from './client';

export function fetchBatches(jobId: string): Promise<Batches> {
  return call('GET /api/v1/jobs/{job_id}/batches', { path: { job_id: jobId } });
}
