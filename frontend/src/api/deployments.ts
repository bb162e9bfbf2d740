/** Deployments of pipelines over REST: what one would do to the running job's state, and how far it is. */

import type {
  CompatibilityAnswer,
  DeploymentAnswer,
  JobPipeline,
  NewDeployment,
  PipelineRestorePoint,
} from '../gen/contract';
import { call } from './client';
import { send } from './pipelines';

export async function fetchDeployments(id: string): Promise<readonly DeploymentAnswer[]> {
  const path = { pipeline_id: id };
  return (await call('GET /api/v1/pipelines/{pipeline_id}/deployments', { path })).deployments;
}

/** Deploys a version. One key makes one deployment, however often it is sent. */
export function deploy(id: string, wanted: NewDeployment, key: string): Promise<DeploymentAnswer> {
  return send(`/${id}/deployments`, { method: 'POST', body: wanted, headers: { 'Idempotency-Key': key } });
}

/**
 * What would become of the state of a snapshot, or, with an empty location, of the running job; the server runs the
 * version's program up to its execute().
 */
export function checkCompatibility(
  id: string,
  version: number,
  location: string,
  signal: AbortSignal,
): Promise<CompatibilityAnswer> {
  return call('POST /api/v1/pipelines/{pipeline_id}/compatibility', {
    path: { pipeline_id: id },
    body: location === '' ? { version } : { version, location },
    signal,
  });
}

/** Snapshots of a pipeline's jobs, newest first. */
export async function fetchPipelineRestorePoints(id: string): Promise<readonly PipelineRestorePoint[]> {
  const path = { pipeline_id: id };
  return (await call('GET /api/v1/pipelines/{pipeline_id}/restore-points', { path })).points;
}

/** The pipeline that a job is of; null: it was not drawn. */
export async function fetchJobPipeline(jobId: string): Promise<JobPipeline | null> {
  return (await call('GET /api/v1/pipelines/jobs/{job_id}', { path: { job_id: jobId } })).drawn;
}
