/** All savepoints known to the cluster, and their disposal. */

import type { DisposalStatus, Savepoints, Triggered } from '../gen/live';
import { ApiError, FLINK, PRODUCT, request } from './client';

const POLL_MS = 500;

export function fetchSavepoints(): Promise<Savepoints> {
  return request(`${PRODUCT}/savepoints`);
}

/** Deletes a savepoint; returns once its files are gone. Throws ApiError with the reason if that fails. */
export async function disposeSavepoint(location: string, triggerId: string): Promise<void> {
  const body = { 'savepoint-path': location, triggerId };
  const triggered = await request<Triggered>(`${FLINK}/savepoint-disposal`, { method: 'POST', body });
  for (;;) {
    const { status, operation } = await request<DisposalStatus>(
      `${FLINK}/savepoint-disposal/${triggered['request-id']}`,
    );
    const cause = operation?.['failure-cause'];
    if (cause !== undefined) throw new ApiError(409, cause['stack-trace'] || cause.class);
    if (status.id === 'COMPLETED') return;
    await new Promise((resume) => setTimeout(resume, POLL_MS));
  }
}
