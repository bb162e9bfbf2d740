/** Where what has happened leads, and how many of it is new. Pure. */

import type { Happening, HappeningKind } from '../gen/contract';
import { t } from '../texts/t';

/** Tab of the job's page that shows more; '' for its first one. */
const TABS: Partial<Record<HappeningKind, string>> = {
  failed: 'exceptions',
  failure: 'exceptions',
  restart: 'exceptions',
  checkpoint: 'checkpoints',
  savepoint: 'checkpoints',
};

export function linkOf({ kind, subject }: Happening): string {
  if (kind === 'leader') return '/jobmanagers';
  if (kind === 'taskmanager') return `/taskmanagers/${encodeURIComponent(subject)}`;
  if (kind === 'deployment') return `/pipelines/${subject}`;
  return `/jobs/${subject}?tab=${TABS[kind] ?? ''}`;
}

/** As short as a badge has room for. */
export function countText(count: number): string {
  return count > 99 ? '99+' : String(count);
}

export function bellLabel(unread: number): string {
  return unread === 0 ? t('What happened: nothing new') : t('What happened: {count} new', { count: unread });
}
