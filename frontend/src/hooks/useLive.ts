/** Live documents by topic; polls REST while the socket is down. */

import { useQuery } from '@tanstack/react-query';
import { createContext, useCallback, useContext, useEffect, useSyncExternalStore } from 'react';

import { ApiError } from '../api/client';
import { fetchClusterTopic } from '../api/jobs';
import type { LiveCluster, Topic } from '../gen/contract';
import { type Cluster, clusterOf } from '../model/cluster';
import { type Staleness, staleness } from '../model/staleness';
import type { TopicState } from '../model/liveTopic';
import { connection } from '../store/socket';
import { useNow } from './useNow';
import { useThroughSight } from './useSight';

const POLL_MS = 5_000;

/** The connection that the hooks read; tests provide their own. */
export const LiveContext = createContext(connection);

export interface Live<T> {
  /** Undefined until the first document. */
  readonly data: T | undefined;
  /** The server says that it does not exist (any more). */
  readonly missing: boolean;
  readonly error: string | null;
}

export function useCluster(): Live<Cluster> {
  const live = useLive<LiveCluster>('cluster', fetchClusterTopic);
  return { ...live, data: live.data === undefined ? undefined : clusterOf(live.data) };
}

/** The whole document; renders again with each change of it. */
export function useLive<T>(topic: Topic, read: () => Promise<T>): Live<T> {
  const data = useTopic(topic, (state) => state.data) as T | undefined;
  return { data, ...useArrival(topic, read) };
}

/** A part of a topic's state; renders again when the selected part is another, out of sight some seconds later. */
export function useTopic<T>(topic: Topic, select: (state: TopicState) => T): T {
  const live = useContext(LiveContext);
  const subscribe = useCallback((listener: () => void) => live.subscribe(topic, listener), [live, topic]);
  return useSyncExternalStore(useThroughSight(subscribe), () => select(live.topic(topic)));
}

/** Reads a topic's document over REST at the start and while the socket is down; says why there is none. */
export function useArrival<T>(topic: Topic, read: () => Promise<T>): Omit<Live<T>, 'data'> & { isThere: boolean } {
  const live = useContext(LiveContext);
  const isThere = useTopic(topic, (state) => state.data !== undefined);
  const refusal = useTopic(topic, (state) => state.error);
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
    if (polled !== undefined) live.offer(topic, polled);
  }, [live, topic, polled]);
  const missing = !isThere && error instanceof ApiError && (error.status === 404 || error.status === 400);
  return { isThere, missing, error: isThere ? null : (error?.message ?? refusal) };
}

/** Whether the server sends by itself; else it has to be asked. */
export function useSocketIsOpen(): boolean {
  const live = useContext(LiveContext);
  return useSyncExternalStore(
    (listener) => live.subscribeLiveness(listener),
    () => live.liveness.status === 'open',
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
