/** A job's checkpoints and savepoints, and requests for them. Two requests with one trigger id count as
 * one; the leading jobmanager carries it out. */

import type {
  CheckpointDetails,
  CheckpointGantt,
  CheckpointSubtasks,
  OperationResult,
  RequirementsRequest,
  RestoreCheck,
  RestorePoints,
  Triggered,
} from '../gen/contract';
import type { Bounds } from '../model/requirements';
import { ApiError, call } from './client';

const POLL_MS = 500;
/** A restarted web process is back within seconds. */
const UNREACHABLE_MS = 30_000;

export function fetchCheckpoint(jobId: string, id: number): Promise<CheckpointDetails> {
  const path = { job_id: jobId, checkpoint_id: String(id) };
  return call('GET /v1/jobs/{job_id}/checkpoints/details/{checkpoint_id}', { path });
}

export function fetchCheckpointSubtasks(jobId: string, id: number, vertexId: string): Promise<CheckpointSubtasks> {
  const path = { job_id: jobId, checkpoint_id: String(id), vertex_id: vertexId };
  return call('GET /v1/jobs/{job_id}/checkpoints/details/{checkpoint_id}/subtasks/{vertex_id}', { path });
}

/** Where the time of the last checkpoints went. */
export function fetchCheckpointGantt(jobId: string): Promise<CheckpointGantt> {
  return call('GET /api/v1/jobs/{job_id}/checkpoints/gantt', { path: { job_id: jobId } });
}

export function fetchRestorePoints(jobId: string): Promise<RestorePoints> {
  return call('GET /api/v1/jobs/{job_id}/restore-points', { path: { job_id: jobId } });
}

/** Whether a snapshot can be restored once the job has been ended; the storage is read. */
export function checkRestorePoint(jobId: string, location: string): Promise<RestoreCheck> {
  return call('GET /api/v1/jobs/{job_id}/restore-points/check', { path: { job_id: jobId }, query: { location } });
}

export interface SavepointRequest {
  readonly directory: string;
  readonly format: 'CANONICAL' | 'NATIVE';
}

export function triggerSavepoint(jobId: string, wanted: SavepointRequest, triggerId: string): Promise<Triggered> {
  const body = { 'target-directory': wanted.directory || null, formatType: wanted.format, triggerId };
  return call('POST /v1/jobs/{job_id}/savepoints', { path: { job_id: jobId }, body });
}

export function stopJob(
  jobId: string,
  wanted: SavepointRequest & { readonly drain: boolean },
  triggerId: string,
): Promise<Triggered> {
  const { directory, format, drain } = wanted;
  const body = { targetDirectory: directory || null, formatType: format, drain, triggerId };
  return call('POST /v1/jobs/{job_id}/stop', { path: { job_id: jobId }, body });
}

export function triggerCheckpoint(jobId: string, triggerId: string): Promise<Triggered> {
  const body = { checkpointType: 'CONFIGURED', triggerId };
  return call('POST /v1/jobs/{job_id}/checkpoints', { path: { job_id: jobId }, body });
}

/** Parallelisms by vertex id. */
export function rescaleJob(jobId: string, wanted: Record<string, number>, triggerId: string): Promise<Triggered> {
  const body: RequirementsRequest = { triggerId };
  for (const [id, n] of Object.entries(wanted)) body[id] = { parallelism: { upperBound: n } };
  return call('PUT /v1/jobs/{job_id}/resource-requirements', { path: { job_id: jobId }, body });
}

/** Bounds of parallelisms by vertex id. */
export function changeRequirements(
  jobId: string,
  wanted: Readonly<Record<string, Bounds>>,
  triggerId: string,
): Promise<Triggered> {
  const body: RequirementsRequest = { triggerId };
  for (const [id, { lower, upper }] of Object.entries(wanted))
    body[id] = { parallelism: { lowerBound: lower, upperBound: upper } };
  return call('PUT /v1/jobs/{job_id}/resource-requirements', { path: { job_id: jobId }, body });
}

/**
 * Waits for an operation to complete. Throws ApiError with the reason if it failed, or if the server could not be reached
 * for longer than `patienceMs`.
 */
export async function settled(jobId: string, triggerId: string, patienceMs = UNREACHABLE_MS): Promise<OperationResult> {
  const path = { job_id: jobId, trigger_id: triggerId };
  let heardAt = Date.now();
  for (;;) {
    try {
      const operation = await call('GET /api/v1/jobs/{job_id}/operations/{trigger_id}', { path });
      heardAt = Date.now();
      if (operation.state === 'COMPLETED') {
        const result = operation.result ?? {};
        if (result.error !== undefined) throw new ApiError(409, result.error);
        return result;
      }
    } catch (error) {
      const isAway = error instanceof ApiError && (error.status === 0 || error.status >= 502);
      if (!isAway || Date.now() - heardAt > patienceMs) throw error;
    }
    await new Promise((resume) => setTimeout(resume, POLL_MS));
  }
}

/** 32 random hex digits. (crypto.randomUUID exists on https and localhost only.) */
export function newTriggerId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
