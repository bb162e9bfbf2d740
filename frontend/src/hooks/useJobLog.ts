/**
 * The log of a job: its newest entries of those that are wanted, optionally followed, extended backwards on demand.
 *
 * It is followed over the live socket; while that is down, or refuses, the server is asked again and again.
 */

import { useCallback, useContext, useEffect, useReducer, useRef, useState } from 'react';

import { searchJobLog } from '../api/jobs';
import type { JobLog } from '../gen/contract';
import { type HeldLog, type JobLogQuery, startWith, withEarlier, withLater } from '../model/jobLog';
import { followLog } from '../store/followedLog';
import { LiveContext, useSocketIsOpen } from './useLive';

const FOLLOW_MS = 1_500;
const FOLLOWED_ENTRIES = 1_000;

interface State {
  readonly held: HeldLog | null;
  readonly error: string | null;
}

type Action =
  { type: 'started' | 'earlier' | 'later'; part: JobLog; cursor: string | null } | { type: 'failed'; message: string };

function reduce(state: State, action: Action): State {
  if (action.type === 'failed') return { ...state, error: action.message };
  const { held } = state;
  if (action.type === 'started' || held === null) return { held: startWith(action.part), error: null };
  if (action.type === 'earlier') {
    // an answer that comes twice, or too late
    return action.cursor === held.earlier ? { held: withEarlier(held, action.part), error: null } : state;
  }
  return action.cursor === held.later ? { held: withLater(held, action.part), error: null } : state;
}

export interface JobLogState extends State {
  /** The server is looking further back. */
  readonly isSearching: boolean;
  /** Looks further back, up to the next entries. */
  readonly lookBack: () => void;
}

/** Remount (by key) for another query. */
export function useJobLog(jobId: string, query: JobLogQuery, isFollowing: boolean): JobLogState {
  const [state, dispatch] = useReducer(reduce, { held: null, error: null });
  const [isSearching, setSearching] = useState(true);
  const [wanted] = useState(query);
  const running = useRef<AbortController>(null);
  const earlier = state.held?.earlier ?? null;
  const later = state.held?.later ?? null;
  const isBehind = state.held?.isBehind ?? false;

  useEffect(() => {
    const { signal } = (running.current = new AbortController());
    void searchOn(jobId, wanted, null, signal, dispatch).then(() => setSearching(signal.aborted));
    return () => running.current?.abort();
  }, [jobId, wanted]);

  const live = useContext(LiveContext);
  const [isRefused, setRefused] = useState(false);
  const isSocketOpen = useSocketIsOpen();
  const usesSocket = isSocketOpen && !isRefused;
  const hasBegun = later !== null;
  const reached = useRef(later);
  useEffect(() => {
    reached.current = later;
  }, [later]);
  useEffect(() => {
    if (!isFollowing || !usesSocket || !hasBegun || reached.current === null) return;
    return followLog(live, jobId, wanted, reached.current, {
      onPart: (part, cursor) => dispatch({ type: 'later', part, cursor }),
      onEnd: () => setRefused(true),
    });
  }, [live, jobId, wanted, isFollowing, usesSocket, hasBegun]);

  useEffect(() => {
    if (!isFollowing || usesSocket || later === null) return;
    const controller = new AbortController();
    const timer = window.setTimeout(
      () => void followOn(jobId, wanted, later, controller.signal, dispatch),
      isBehind ? 0 : FOLLOW_MS,
    );
    return () => {
      window.clearTimeout(timer);
      controller.abort();
    };
  }, [jobId, wanted, isFollowing, usesSocket, later, isBehind]);

  const lookBack = useCallback(() => {
    if (earlier === null || running.current === null) return;
    const { signal } = running.current;
    setSearching(true);
    void searchOn(jobId, wanted, earlier, signal, dispatch).then(() => setSearching(signal.aborted));
  }, [jobId, wanted, earlier]);
  return { ...state, isSearching, lookBack };
}

/** Looks further back until something is found: a request searches only a part of what is there. */
async function searchOn(
  jobId: string,
  wanted: JobLogQuery,
  first: string | null,
  signal: AbortSignal,
  dispatch: (action: Action) => void,
): Promise<void> {
  try {
    for (let cursor = first; ;) {
      const part = await searchJobLog(jobId, cursor === null ? wanted : { ...wanted, cursor }, signal);
      if (signal.aborted) return;
      dispatch({ type: cursor === null ? 'started' : 'earlier', part, cursor });
      if (part.entries.length > 0 || part.cursor === null) return;
      cursor = part.cursor;
    }
  } catch (error) {
    if (!signal.aborted) dispatch({ type: 'failed', message: messageOf(error) });
  }
}

/** Asks for what is written later until something is, or another cursor is to be asked with. */
async function followOn(
  jobId: string,
  wanted: JobLogQuery,
  cursor: string,
  signal: AbortSignal,
  dispatch: (action: Action) => void,
): Promise<void> {
  const isOver = () => signal.aborted;
  for (let goesOn = true; goesOn && !isOver();) {
    try {
      const query = { ...wanted, cursor, order: 'oldest', limit: FOLLOWED_ENTRIES } as const;
      const part = await searchJobLog(jobId, query, signal);
      goesOn = part.cursor === null || part.cursor === cursor;
      if (!isOver()) dispatch({ type: 'later', part, cursor });
    } catch (error) {
      if (!isOver()) dispatch({ type: 'failed', message: messageOf(error) });
    }
    if (goesOn) await new Promise((resolve) => window.setTimeout(resolve, FOLLOW_MS));
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
