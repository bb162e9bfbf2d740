/** A part of a log file: its end, optionally followed, or the lines around a position; extended on demand. */

import { useCallback, useEffect, useReducer, useState } from 'react';

import { fetchLog } from '../api/jobs';
import type { LogText } from '../gen/contract';
import { EMPTY_LOG, type LogBuffer, append, prepend, startWith } from '../model/logBuffer';

const CHUNK_BYTES = 128 * 1024;
const FOLLOW_MS = 1_500;

interface State {
  readonly buffer: LogBuffer;
  readonly isLoaded: boolean;
  readonly error: string | null;
}

type Action =
  | { type: 'started' | 'appended' | 'prepended'; part: LogText }
  | { type: 'moved'; before: LogText; from: LogText }
  | { type: 'forgotten' }
  | { type: 'failed'; message: string };

/** Bytes read before a selected line. */
const BEFORE_BYTES = 16 * 1024;

function reduce(state: State, action: Action): State {
  switch (action.type) {
    case 'started':
      return { buffer: startWith(action.part), isLoaded: true, error: null };
    case 'appended':
      return isOutdated(state.buffer, action.part)
        ? state
        : { ...state, buffer: append(state.buffer, action.part), error: null };
    case 'prepended':
      return { ...state, buffer: prepend(state.buffer, action.part), error: null };
    case 'moved':
      return { buffer: prepend(startWith(action.from), action.before), isLoaded: true, error: null };
    case 'forgotten':
      return { buffer: EMPTY_LOG, isLoaded: false, error: null };
    case 'failed':
      return { ...state, error: action.message };
  }
}

/** Whether a response does not continue the buffer, nor tell that what continues it is gone. */
function isOutdated({ end }: LogBuffer, { offset, begin, size }: LogText): boolean {
  return offset !== end && size >= end && begin <= end;
}

export interface LogTail extends State {
  readonly isReading: boolean;
  readonly readBack: () => void;
  readonly readOn: () => void;
  /** Shows the lines around the one that begins at this byte. */
  readonly goTo: (offset: number) => void;
  readonly goToEnd: () => void;
}

/** Remount (by key) for another file. */
export function useLogTail(jobId: string, name: string, isFollowing: boolean): LogTail {
  const [state, dispatch] = useReducer(reduce, { buffer: EMPTY_LOG, isLoaded: false, error: null });
  const [isReading, setReading] = useState(false);
  const { isLoaded } = state;
  const { begin, end, start } = state.buffer;

  useEffect(() => {
    let isWanted = true;
    const follow = async () => {
      try {
        const part = isLoaded
          ? await fetchLog(jobId, name, end, CHUNK_BYTES)
          : await fetchLog(jobId, name, -CHUNK_BYTES, CHUNK_BYTES);
        if (isWanted) dispatch({ type: isLoaded ? 'appended' : 'started', part });
      } catch (error) {
        if (isWanted) dispatch({ type: 'failed', message: error instanceof Error ? error.message : String(error) });
      }
    };
    if (!isLoaded) void follow();
    const timer = isLoaded && !isFollowing ? undefined : window.setInterval(() => void follow(), FOLLOW_MS);
    return () => {
      isWanted = false;
      window.clearInterval(timer);
    };
  }, [jobId, name, isFollowing, isLoaded, end]);

  const read = useCallback((reading: () => Promise<Action>) => {
    setReading(true);
    reading()
      .then(dispatch)
      .catch((error: unknown) =>
        dispatch({ type: 'failed', message: error instanceof Error ? error.message : String(error) }),
      )
      .finally(() => setReading(false));
  }, []);
  const readBack = useCallback(() => {
    const from = Math.max(begin, start - CHUNK_BYTES);
    read(async () => ({ type: 'prepended', part: await fetchLog(jobId, name, from, start - from) }));
  }, [read, jobId, name, begin, start]);
  const readOn = useCallback(() => {
    read(async () => ({ type: 'appended', part: await fetchLog(jobId, name, end, CHUNK_BYTES) }));
  }, [read, jobId, name, end]);
  const goTo = useCallback(
    (offset: number) => {
      const before = Math.max(begin, offset - BEFORE_BYTES);
      read(async () => {
        const parts = [fetchLog(jobId, name, before, offset - before), fetchLog(jobId, name, offset, CHUNK_BYTES)];
        const [above, from] = (await Promise.all(parts)) as [LogText, LogText];
        return { type: 'moved', before: above, from };
      });
    },
    [read, jobId, name, begin],
  );
  const goToEnd = useCallback(() => dispatch({ type: 'forgotten' }), []);

  return { ...state, isReading, readBack, readOn, goTo, goToEnd };
}
