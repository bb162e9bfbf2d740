/** Users, tokens and the audit trail. */

import type { AuditPage, MadeToken, NewToken, NewUser, Tokens, UserChange, UserEntry, Users } from '../gen/contract';
import { call } from './client';

export function fetchUsers(): Promise<Users> {
  return call('GET /api/v1/users');
}

export function addUser(user: NewUser): Promise<UserEntry> {
  return call('POST /api/v1/users', { body: user });
}

export function changeUser(name: string, change: UserChange): Promise<UserEntry> {
  return call('PATCH /api/v1/users/{name}', { path: { name }, body: change });
}

export async function deleteUser(name: string): Promise<void> {
  await call('DELETE /api/v1/users/{name}', { path: { name } });
}

export function fetchTokens(ofAll: boolean): Promise<Tokens> {
  return call('GET /api/v1/tokens', { query: ofAll ? { all: '1' } : {} });
}

/** The answer shows the token this once. */
export function makeToken(token: NewToken): Promise<MadeToken> {
  return call('POST /api/v1/tokens', { body: token });
}

export async function revokeToken(id: number): Promise<void> {
  await call('DELETE /api/v1/tokens/{token_id}', { path: { token_id: String(id) } });
}

/** Events before an id, newest first; null: the newest. */
export function fetchAudit(before: number | null): Promise<AuditPage> {
  return call('GET /api/v1/audit', { query: before === null ? {} : { before } });
}
