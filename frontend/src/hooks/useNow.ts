/**
 * The time, once a second: this browser's, or the server's (for durations). While the data is
 * stale, the server's time stands still: whether a job still runs is unknown.
 */

import { useSyncExternalStore } from 'react';

import { staleness } from '../model/staleness';
import { connection } from '../store/socket';
import { subscribeTicker, tickerNow } from '../store/ticker';
import { useThroughSight } from './useSight';

export function useNow(): number {
  return useSyncExternalStore(useThroughSight(subscribeTicker), tickerNow);
}

export function useServerNow(): number {
  const now = useNow();
  const stale = staleness(connection.liveness, now);
  return (stale?.since ?? now) + connection.clockOffset;
}
