/** A log file as it grows: read from its end, followed while wanted, and read back on demand. */

import { useCallback, useEffect, useReducer, useState } from 'react';

import { fetchLog } from '../api/jobs';
import type { LogText } from '../gen/live';
import { EMPTY_LOG, type LogBuffer, append, prepend, startWith } from '../model/logBuffer';

const CHUNK_BYTES = 128 * 1024;
const FOLLOW_MS = 1_500;

interface State {
  readonly buffer: LogBuffer;
  readonly isLoaded: boolean;
  readonly error: string | null;
}

type Action = { type: 'started' | 'appended' | 'prepended'; part: LogText } | { type: 'failed'; message: string };

function reduce(state: State, action: Action): State {
  switch (action.type) {
    case 'started':
      return { buffer: startWith(action.part), isLoaded: true, error: null };
    case 'appended':
      // an answer that another one has overtaken
      if (action.part.offset !== state.buffer.end && action.part.size >= state.buffer.end) return state;
      return { ...state, buffer: append(state.buffer, action.part), error: null };
    case 'prepended':
      return { ...state, buffer: prepend(state.buffer, action.part), error: null };
    case 'failed':
      return { ...state, error: action.message };
  }
}

export interface LogTail extends State {
  readonly isReadingBack: boolean;
  readBack(): void;
}

/** Mount anew (by key) for another file. */
export function useLogTail(jobId: string, name: string, isFollowing: boolean): LogTail {
  const [state, dispatch] = useReducer(reduce, { buffer: EMPTY_LOG, isLoaded: false, error: null });
  const [isReadingBack, setReadingBack] = useState(false);
  const { isLoaded } = state;
  const { end, start } = state.buffer;

  useEffect(() => {
    let isWanted = true;
    const read = async () => {
      try {
        const part = isLoaded
          ? await fetchLog(jobId, name, end, CHUNK_BYTES)
          : await fetchLog(jobId, name, -CHUNK_BYTES, CHUNK_BYTES);
        if (isWanted) dispatch({ type: isLoaded ? 'appended' : 'started', part });
      } catch (error) {
        if (isWanted) dispatch({ type: 'failed', message: error instanceof Error ? error.message : String(error) });
      }
    };
    if (!isLoaded) void read();
    const timer = isLoaded && !isFollowing ? undefined : window.setInterval(() => void read(), FOLLOW_MS);
    return () => {
      isWanted = false;
      window.clearInterval(timer);
    };
  }, [jobId, name, isFollowing, isLoaded, end]);

  const readBack = useCallback(() => {
    const from = Math.max(0, start - CHUNK_BYTES);
    setReadingBack(true);
    fetchLog(jobId, name, from, start - from)
      .then((part) => dispatch({ type: 'prepended', part }))
      .catch((error: unknown) =>
        dispatch({ type: 'failed', message: error instanceof Error ? error.message : String(error) }),
      )
      .finally(() => setReadingBack(false));
  }, [jobId, name, start]);

  return { ...state, isReadingBack, readBack };
}
