/** Login, logout and the current user. */

import type { FlinkConfig, Session } from '../gen/live';
import { ApiError, FLINK, PRODUCT, request } from './client';

export type Credentials = { username: string; password: string } | { token: string };

/** Null if nobody is logged in. */
export async function fetchSession(): Promise<Session | null> {
  try {
    return await request<Session>(`${PRODUCT}/session`);
  } catch (error) {
    if (error instanceof ApiError && error.isLoginNeeded) return null;
    throw error;
  }
}

export function login(credentials: Credentials): Promise<Session> {
  return request<Session>(`${PRODUCT}/session`, { method: 'POST', body: credentials });
}

export function logout(): Promise<void> {
  return request(`${PRODUCT}/session`, { method: 'DELETE' });
}

export function fetchConfig(): Promise<FlinkConfig> {
  return request<FlinkConfig>(`${FLINK}/config`);
}
