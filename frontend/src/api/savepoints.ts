/** All savepoints known to the cluster, and their disposal. */

import type { Savepoints } from '../gen/contract';
import { ApiError, call } from './client';

const POLL_MS = 500;

/** Number of savepoints on a page of the list. */
export const PAGE_SIZE = 50;

/** A page of those that a search finds, newest first; an empty search finds all. */
export function fetchSavepoints(search: string, page: number): Promise<Savepoints> {
  const query = { limit: PAGE_SIZE, offset: (page - 1) * PAGE_SIZE };
  return call('GET /api/v1/savepoints', { query: search === '' ? query : { ...query, search } });
}

/** Deletes a savepoint; returns once its files are gone. Throws ApiError with the reason if that fails. */
export async function disposeSavepoint(location: string, triggerId: string): Promise<void> {
  const body = { 'savepoint-path': location, triggerId };
  const triggered = await call('POST /v1/savepoint-disposal', { body });
  const path = { trigger_id: triggered['request-id'] };
  for (;;) {
    const { status, operation } = await call('GET /v1/savepoint-disposal/{trigger_id}', { path });
    const cause = operation?.['failure-cause'];
    if (cause !== undefined) throw new ApiError(409, cause['stack-trace'] || cause.class);
    if (status.id === 'COMPLETED') return;
    await new Promise((resume) => setTimeout(resume, POLL_MS));
  }
}
