/** Formats times in the chosen time zone. */

import { useMemo, useSyncExternalStore } from 'react';

import type { Watermark } from '../gen/contract';
import { formatDateTime, formatTime, formatWatermark } from '../model/format';
import { getPreferences, subscribePreferences } from '../store/preferences';

export interface Times {
  readonly utc: boolean;
  readonly zone: string;
  time(ms: number): string;
  dateTime(ms: number | null | undefined): string;
  watermark(watermark: Watermark): string;
}

export function useTimes(): Times {
  const { utc } = useSyncExternalStore(subscribePreferences, getPreferences);
  return useMemo(
    () => ({
      utc,
      zone: utc ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone,
      time: (ms) => formatTime(ms, utc),
      dateTime: (ms) => formatDateTime(ms, utc),
      watermark: (watermark) => formatWatermark(watermark, utc),
    }),
    [utc],
  );
}
