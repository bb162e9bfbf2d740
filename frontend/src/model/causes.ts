/** Causes that hold a job up, in a few words. */

import type { CauseName } from '../gen/contract';

const TEXTS: Record<CauseName, string> = {
  busy: 'busy',
  skew: 'data skew',
  outside: 'waits for something outside',
  'slow-sink': 'slow sink',
  stall: 'call does not return',
  alignment: 'waits for barriers',
  unknown: 'backpressured, cause unknown',
  'pending-records': 'falls behind',
  'late-data': 'drops late records',
  memory: 'little memory left',
  'idle-input': 'nothing to read',
  'still-watermark': 'watermark stands still',
};

export function causeText(cause: CauseName): string {
  // a newer server may know a cause that this page does not
  return (TEXTS as Partial<Record<string, string>>)[cause] ?? cause;
}
