/** Causes that hold a job up, in a few words. */

import type { CauseName } from '../gen/contract';
import { t } from '../texts/t';

const TEXTS: Record<CauseName, string> = {
  busy: 'busy',
  skew: t('data skew'),
  outside: t('waits for something outside'),
  'slow-sink': t('slow sink'),
  stall: t('call does not return'),
  alignment: t('waits for barriers'),
  unknown: t('backpressured, cause unknown'),
  'pending-records': t('falls behind'),
  'late-data': t('drops late records'),
  memory: t('little memory left'),
  'idle-input': t('nothing to read'),
  'still-watermark': t('watermark stands still'),
};

export function causeText(cause: CauseName): string {
  // a newer server may know a cause that this page does not
  return (TEXTS as Partial<Record<string, string>>)[cause] ?? cause;
}
