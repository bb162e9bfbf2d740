/** The time, once a second: of this browser, or of the server (what durations are counted by). */

import { useSyncExternalStore } from 'react';

import { connection } from '../store/socket';
import { subscribeTicker, tickerNow } from '../store/ticker';

export function useNow(): number {
  return useSyncExternalStore(subscribeTicker, tickerNow);
}

export function useServerNow(): number {
  return useNow() + connection.clockOffset;
}
