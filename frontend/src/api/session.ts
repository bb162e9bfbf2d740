/** Login, logout and the current user. */

import type { Credentials, FlinkConfig, Session } from '../gen/contract';
import { ApiError, call } from './client';

/** Null if nobody is logged in. */
export async function fetchSession(): Promise<Session | null> {
  try {
    return await call('GET /api/v1/session');
  } catch (error) {
    if (error instanceof ApiError && error.isLoginNeeded) return null;
    throw error;
  }
}

export function login(credentials: Credentials): Promise<Session> {
  return call('POST /api/v1/session', { body: credentials });
}

export async function logout(): Promise<void> {
  await call('DELETE /api/v1/session');
}

export function fetchConfig(): Promise<FlinkConfig> {
  return call('GET /v1/config');
}
