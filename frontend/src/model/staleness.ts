/**
 * When the page must say that what it shows is old: the connection is down or silent, or the server says that the
 * data itself is old (the jobmanager or Redis does not answer). Pure; all times are of the local clock, epoch ms.
 */

import type { Freshness } from '../gen/contract';
import { t } from '../texts/t';

/** The server ticks every second; three missing ticks are no accident, one is. */
export const STALE_AFTER_MS = 3_000;

/** A page that has just been opened is not called stale while it connects for the first time. */
export const CONNECT_GRACE_MS = 4_000;

export type SocketStatus = 'connecting' | 'open' | 'closed';

/** What the server said last about data that is old. */
export interface StaleData {
  /** As of when the data is; null: the server does not know. */
  readonly since: number | null;
  readonly reason: string;
}

export interface Liveness {
  readonly status: SocketStatus;
  /** When the last data came, over the socket or over REST; null before the first. */
  readonly lastDataAt: number | null;
  /** When the last frame came over the socket; null before the first. */
  readonly lastFrameAt: number | null;
  readonly startedAt: number;
  /** Of the oldest topic that is shown; null while all are fresh. */
  readonly staleData: StaleData | null;
}

export interface Staleness {
  /** As of when what is shown is; null: nobody knows. */
  readonly since: number | null;
  /** What is the matter, and what is being waited for. */
  readonly reason: string;
}

const SOCKET_IS_DOWN = t(
  'The connection to the server is down. The page keeps reconnecting and polls the server every 5 s in the meantime.',
);
const AS_OF_THEN = t('The page shows the data of that time and recovers by itself.');
const AS_OF_SOME_TIME = t('The data shown may be out of date; the page recovers by itself.');

/** Null while what is shown is live. */
export function staleness(liveness: Liveness, now: number): Staleness | null {
  const { staleData } = liveness;
  const socket = socketStaleSince(liveness, now);
  if (staleData !== null) {
    // what is asked for over REST while the socket is down is no newer than the server's own data
    const heardAgain = staleData.since === null ? AS_OF_SOME_TIME : AS_OF_THEN;
    return { since: staleData.since, reason: `${staleData.reason} ${socket === null ? heardAgain : SOCKET_IS_DOWN}` };
  }
  return socket === null ? null : { since: socket, reason: SOCKET_IS_DOWN };
}

function socketStaleSince(liveness: Liveness, now: number): number | null {
  const { status, lastFrameAt, lastDataAt, startedAt } = liveness;
  if (lastFrameAt === null && now - startedAt < CONNECT_GRACE_MS) return null;
  const silent = now - (lastFrameAt ?? startedAt) > STALE_AFTER_MS;
  if (status === 'open' && !silent) return null;
  if (status === 'connecting' && lastFrameAt === null && !silent) return null;
  return lastDataAt ?? startedAt;
}

/** Of what was said about several documents at their times (epoch ms), the oldest that is stale. */
export function oldest(said: Iterable<{ readonly freshness: Freshness; readonly at: number }>): StaleData | null {
  let worst: StaleData | null = null;
  for (const { freshness, at } of said) {
    if (!freshness.is_stale) continue;
    const since = freshness.age_ms === null ? null : at - freshness.age_ms;
    if (worst === null || (since ?? 0) < (worst.since ?? 0)) worst = { since, reason: freshness.reason };
  }
  return worst;
}
