/** How far a watermark is from where it should be: behind the newest one or, where sources are live, the clock. Pure. */

import type { JobEventTime, Watermark, WatermarkHolder } from '../gen/contract';
import { t } from '../texts/t';

/**
 * The server's findings, with a newest watermark that is no older than any vertex's: the server looks at the sources once a
 * second, and replayed data goes on by hours in that time.
 */
export function upToDate(time: JobEventTime, watermarks: readonly Watermark[]): JobEventTime {
  if (time.newest === undefined) return time;
  return { ...time, newest: Math.max(time.newest, ...watermarks.filter((value) => typeof value === 'number')) };
}

/**
 * ms of event time by which the watermark of a vertex is behind the newest one of the sources whose streams meet there; null:
 * there is nothing to compare.
 */
export function behindOf(watermark: Watermark, time: JobEventTime | undefined, vertex: string): number | null {
  if (typeof watermark !== 'number' || time?.newest === undefined) return null;
  // the server's newest may be a second older than this
  return Math.max(0, (time.newest_of?.[vertex] ?? time.newest) - watermark);
}

/**
 * ms by which the watermark of a vertex is behind the clock; null unless all of its sources are live: of old data it is only
 * the age.
 */
export function liveLagOf(
  watermark: Watermark,
  now: number,
  time: JobEventTime | undefined,
  vertex: string,
): number | null {
  return typeof watermark === 'number' && isLiveAt(time, vertex) ? now - watermark : null;
}

export function isLiveAt(time: JobEventTime | undefined, vertex: string): boolean {
  return time?.live?.[vertex] === true;
}

/** "subtask 1, split p3". */
export function placeText({ subtask, split }: { readonly subtask: number; readonly split?: string }): string {
  return split === undefined
    ? t('subtask {subtask}', { subtask })
    : t('subtask {subtask}, split {split}', { subtask, split });
}

const REASONS: Record<WatermarkHolder['why'], string> = {
  'nothing-to-read': t('nothing to read'),
  'no-watermark': t('no watermark yet'),
  'back-pressured': 'backpressured',
  behind: t('furthest behind'),
};

/** "subtask 1, split p3: nothing to read". */
export function holderText(holder: WatermarkHolder): string {
  return `${placeText(holder)}: ${REASONS[holder.why]}`;
}
