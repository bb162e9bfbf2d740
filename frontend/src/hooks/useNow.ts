/**
 * The time, once a second: of this browser, or of the server (what durations are counted by). While what is shown is
 * stale the server's stands still: nobody knows whether a job goes on.
 */

import { useSyncExternalStore } from 'react';

import { staleness } from '../model/staleness';
import { connection } from '../store/socket';
import { subscribeTicker, tickerNow } from '../store/ticker';

export function useNow(): number {
  return useSyncExternalStore(subscribeTicker, tickerNow);
}

export function useServerNow(): number {
  const now = useNow();
  const stale = staleness(connection.liveness, now);
  return (stale?.since ?? now) + connection.clockOffset;
}
