/** Connections over REST: systems outside by name, without their secrets. */

import type { ConnectionAnswer, ConnectionChange, Description } from '../gen/contract';
import { call } from './client';

export type Connection = ConnectionAnswer;
export type ConnectionKind = ConnectionAnswer['kind'];

export const CONNECTIONS_KEY = ['connections'] as const;

export async function fetchConnections(): Promise<readonly Connection[]> {
  return (await call('GET /api/v1/pipelines/connections')).connections;
}

/** Creates a connection or replaces it. */
export function putConnection(name: string, body: ConnectionChange): Promise<Connection> {
  return call('PUT /api/v1/pipelines/connections/{name}', { path: { name }, body });
}

export async function deleteConnection(name: string): Promise<void> {
  await call('DELETE /api/v1/pipelines/connections/{name}', { path: { name } });
}

/** Asks the system for a sign of life; what came of it is in the connection. */
export function testConnection(name: string): Promise<Connection> {
  return call('POST /api/v1/pipelines/connections/{name}/test', { path: { name } });
}

/** The tables or streams behind a connection; with a table, its columns. */
export function describeConnection(name: string, table?: string): Promise<Description> {
  return call('POST /api/v1/pipelines/connections/{name}/describe', {
    path: { name },
    body: table === undefined ? {} : { table },
  });
}
