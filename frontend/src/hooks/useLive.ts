/** Live documents by topic; polls REST while the socket is down. */

import { useQuery } from '@tanstack/react-query';
import { useCallback, useEffect, useSyncExternalStore } from 'react';

import { ApiError } from '../api/client';
import { fetchCluster, fetchJob } from '../api/jobs';
import type { ClusterDocument, JobDocument, Topic } from '../gen/live';
import { type Staleness, staleness } from '../model/staleness';
import { connection } from '../store/socket';
import { useNow } from './useNow';

const POLL_MS = 5_000;

export interface Live<T> {
  /** Undefined until the first document. */
  readonly data: T | undefined;
  /** The server says that it does not exist (any more). */
  readonly missing: boolean;
  readonly error: string | null;
}

export function useCluster(): Live<ClusterDocument> {
  return useLive<ClusterDocument>('cluster', fetchCluster);
}

export function useJob(id: string): Live<JobDocument> {
  const read = useCallback(() => fetchJob(id), [id]);
  return useLive<JobDocument>(`job:${id}`, read);
}

function useLive<T>(topic: Topic, read: () => Promise<T>): Live<T> {
  const subscribe = useCallback((listener: () => void) => connection.subscribe(topic, listener), [topic]);
  const state = useSyncExternalStore(subscribe, () => connection.topic(topic));
  const socketIsOpen = useSocketIsOpen();
  // also read once at the start, before the socket is open
  const { data: polled, error } = useQuery({
    queryKey: ['live', topic],
    queryFn: read,
    refetchInterval: socketIsOpen ? false : POLL_MS,
    refetchIntervalInBackground: false,
    staleTime: 0,
    gcTime: 0,
    retry: false,
  });
  useEffect(() => {
    if (polled !== undefined) connection.offer(topic, polled);
  }, [topic, polled]);
  const data = (state.data ?? polled) as T | undefined;
  const missing = data === undefined && error instanceof ApiError && (error.status === 404 || error.status === 400);
  return { data, missing, error: data === undefined ? (error?.message ?? state.error) : null };
}

function useSocketIsOpen(): boolean {
  return useSyncExternalStore(
    (listener) => connection.subscribeLiveness(listener),
    () => connection.liveness.status === 'open',
  );
}

export interface ConnectionState {
  /** Null while the shown data is live. */
  readonly stale: Staleness | null;
  readonly isConnecting: boolean;
}

/** For the indicator and the banner; changes at most once a second while nothing happens. */
export function useConnection(): ConnectionState {
  const now = useNow();
  const liveness = useSyncExternalStore(
    (listener) => connection.subscribeLiveness(listener),
    () => connection.liveness,
  );
  useEffect(() => connection.checkSilence(), [now]);
  // `now` may be earlier than a frame that has just arrived: that is no silence
  const stale = staleness(liveness, Math.max(now, liveness.lastFrameAt ?? 0));
  return { stale, isConnecting: stale === null && liveness.status !== 'open' };
}
