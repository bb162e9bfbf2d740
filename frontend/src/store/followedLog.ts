/** A job's log that is followed over the live socket: part by part, from a cursor on, also after a reconnection. */

import type { JobLog, JobLogQuery } from '../gen/contract';
import type { LiveConnection } from './liveConnection';

/** Told what a followed log gets. */
export interface LogFollower {
  /** Takes what was added behind a cursor. */
  onPart(part: JobLog, cursor: string): void;
  /** The server does not follow it any more. */
  onEnd(message: string): void;
}

let count = 0;

/** Follows a log until the returned function is called. */
export function followLog(
  live: LiveConnection,
  job: string,
  query: JobLogQuery,
  begin: string,
  follower: LogFollower,
): () => void {
  const id = String((count += 1));
  let cursor = begin;
  const ask = () => live.send({ type: 'follow', id, job, query: { ...query, cursor } });
  const leave = live.converse({
    onOpen: ask,
    onMessage: (message) => {
      if (message.type === 'log' && message.id === id) {
        const before = cursor;
        cursor = message.part.cursor ?? cursor;
        follower.onPart(message.part, before);
        // only then the server sends more
        live.send({ type: 'took', id });
      } else if (message.type === 'log-ended' && message.id === id) {
        leave();
        follower.onEnd(message.message);
      }
    },
  });
  ask();
  return () => {
    leave();
    live.send({ type: 'unfollow', id });
  };
}
