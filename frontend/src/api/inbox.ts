/** What has happened on the cluster since the user last looked. */

import type { Inbox } from '../gen/contract';
import { call } from './client';

export function fetchInbox(): Promise<Inbox> {
  return call('GET /api/v1/inbox');
}

/** Times are the server's, epoch ms. */
export function markRead(readAt: number): Promise<Inbox> {
  return call('PUT /api/v1/inbox', { body: { read_at: readAt } });
}
