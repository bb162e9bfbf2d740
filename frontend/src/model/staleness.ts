/** When the page must say that what it shows is old. */

/** The server ticks every 2 s; three missing ticks are no accident, one is. */
export const STALE_AFTER_MS = 6_000;

/** A page that has just been opened is not called stale while it connects for the first time. */
export const CONNECT_GRACE_MS = 4_000;

export type SocketStatus = 'connecting' | 'open' | 'closed';

export interface Liveness {
  readonly status: SocketStatus;
  /** When the last data came, over the socket or over REST; null before the first. */
  readonly lastDataAt: number | null;
  /** When the last frame came over the socket; null before the first. */
  readonly lastFrameAt: number | null;
  readonly startedAt: number;
}

/** Since when the page is stale (epoch ms), or null while it is live. */
export function staleSince(liveness: Liveness, now: number): number | null {
  const { status, lastFrameAt, lastDataAt, startedAt } = liveness;
  if (lastFrameAt === null && now - startedAt < CONNECT_GRACE_MS) return null;
  const silent = now - (lastFrameAt ?? startedAt) > STALE_AFTER_MS;
  if (status === 'open' && !silent) return null;
  if (status === 'connecting' && lastFrameAt === null && !silent) return null;
  return lastDataAt ?? startedAt;
}
