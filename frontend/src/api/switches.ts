/** Switches of a job's execution over REST: asked for once, they are carried out by the cluster. */

import type { Switch } from '../gen/contract';
import { call } from './client';

export type Execution = Switch['execution'];

/** Has a running job go on in another execution. One key makes one switch, however often it is sent. */
export function switchExecution(jobId: string, execution: Execution, key: string): Promise<Switch> {
  return call('POST /api/v1/jobs/{job_id}/switch', { path: { job_id: jobId }, body: { execution, key } });
}

/** The newest switch that a job is part of, as the old or the new one; null: there is none. */
export async function fetchSwitch(jobId: string): Promise<Switch | null> {
  return (await call('GET /api/v1/jobs/{job_id}/switch', { path: { job_id: jobId } })).switch;
}
