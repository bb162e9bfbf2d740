/** A job's checkpoints and savepoints, and requests for them. Two requests with one trigger id count as
 * one; the leading jobmanager carries it out. */

import type { CheckpointDetails, CheckpointSubtasks, Operation, RestorePoints, Triggered } from '../gen/live';
import type { Bounds } from '../model/requirements';
import { ApiError, FLINK, PRODUCT, request } from './client';

const POLL_MS = 500;
/** A restarted web process is back within seconds. */
const UNREACHABLE_MS = 30_000;

const job = (id: string) => `${FLINK}/jobs/${encodeURIComponent(id)}`;

export function fetchCheckpoint(jobId: string, id: number): Promise<CheckpointDetails> {
  return request(`${job(jobId)}/checkpoints/details/${id}`);
}

export function fetchCheckpointSubtasks(jobId: string, id: number, vertexId: string): Promise<CheckpointSubtasks> {
  return request(`${job(jobId)}/checkpoints/details/${id}/subtasks/${encodeURIComponent(vertexId)}`);
}

export function fetchRestorePoints(jobId: string): Promise<RestorePoints> {
  return request(`${PRODUCT}/jobs/${encodeURIComponent(jobId)}/restore-points`);
}

export interface SavepointRequest {
  readonly directory: string;
  readonly format: 'CANONICAL' | 'NATIVE';
}

export function triggerSavepoint(jobId: string, wanted: SavepointRequest, triggerId: string): Promise<Triggered> {
  const body = { 'target-directory': wanted.directory || null, formatType: wanted.format, triggerId };
  return request(`${job(jobId)}/savepoints`, { method: 'POST', body });
}

export function stopJob(
  jobId: string,
  wanted: SavepointRequest & { readonly drain: boolean },
  triggerId: string,
): Promise<Triggered> {
  const { directory, format, drain } = wanted;
  const body = { targetDirectory: directory || null, formatType: format, drain, triggerId };
  return request(`${job(jobId)}/stop`, { method: 'POST', body });
}

export function triggerCheckpoint(jobId: string, triggerId: string): Promise<Triggered> {
  return request(`${job(jobId)}/checkpoints`, { method: 'POST', body: { checkpointType: 'CONFIGURED', triggerId } });
}

/** Parallelisms by vertex id. */
export function rescaleJob(jobId: string, wanted: Record<string, number>, triggerId: string): Promise<Triggered> {
  const body: Record<string, unknown> = { triggerId };
  for (const [id, n] of Object.entries(wanted)) body[id] = { parallelism: { upperBound: n } };
  return request(`${job(jobId)}/resource-requirements`, { method: 'PUT', body });
}

/** Bounds of parallelisms by vertex id. */
export function changeRequirements(
  jobId: string,
  wanted: Readonly<Record<string, Bounds>>,
  triggerId: string,
): Promise<Triggered> {
  const body: Record<string, unknown> = { triggerId };
  for (const [id, { lower, upper }] of Object.entries(wanted))
    body[id] = { parallelism: { lowerBound: lower, upperBound: upper } };
  return request(`${job(jobId)}/resource-requirements`, { method: 'PUT', body });
}

/** Waits for an operation to complete. Throws ApiError with the reason if it failed. */
export async function settled(jobId: string, triggered: Triggered): Promise<NonNullable<Operation['result']>> {
  const url = `${PRODUCT}/jobs/${encodeURIComponent(jobId)}/operations/${triggered['request-id']}`;
  let heardAt = Date.now();
  for (;;) {
    try {
      const operation = await request<Operation>(url);
      heardAt = Date.now();
      if (operation.state === 'COMPLETED') {
        const result = operation.result ?? {};
        if (result.error !== undefined) throw new ApiError(409, result.error);
        return result;
      }
    } catch (error) {
      const isAway = error instanceof ApiError && (error.status === 0 || error.status >= 502);
      if (!isAway || Date.now() - heardAt > UNREACHABLE_MS) throw error;
    }
    await new Promise((resume) => setTimeout(resume, POLL_MS));
  }
}

/** 32 random hex digits. (crypto.randomUUID exists on https and localhost only.) */
export function newTriggerId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
