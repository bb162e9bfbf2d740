/** A peek that lasts for as long as the component is there, and the page is looked at. */

import { useCallback, useEffect, useRef, useState } from 'react';

import { ApiError } from '../../api/client';
import { beginPeek, endPeek, fetchPeek } from '../../api/peeks';
import type { PeekAnswer, PeekRequest } from '../../gen/contract';
import { type ShownElement, withNewer } from '../../model/peek';
import { t } from '../../texts/t';

const LOOK_MS = 1_000;

export interface Peek {
  readonly isOpen: boolean;
  readonly isBeginning: boolean;
  /** What has been seen, without the elements; null: nothing yet. */
  readonly counts: Omit<PeekAnswer, 'elements'> | null;
  readonly elements: readonly ShownElement[];
  /** Why there is nothing new; empty: there may be. */
  readonly error: string;
  readonly begin: (wanted: PeekRequest) => void;
  readonly stop: () => void;
}

export function usePeek(jobId: string): Peek {
  const [peekId, setPeekId] = useState<string | null>(null);
  const [isBeginning, setBeginning] = useState(false);
  const [counts, setCounts] = useState<Peek['counts']>(null);
  const [elements, setElements] = useState<readonly ShownElement[]>([]);
  const [error, setError] = useState('');
  const isGone = useRef(false);
  useEffect(() => {
    isGone.current = false;
    return () => {
      isGone.current = true;
    };
  }, []);
  useEffect(() => {
    if (peekId === null) return undefined;
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let after = 0;
    const look = async () => {
      try {
        // nobody sees a page in the background: its peek ends with the lease
        if (!document.hidden) {
          const { elements: seen, ...rest } = await fetchPeek(jobId, peekId, after);
          if (isOver) return;
          after = seen.at(-1)?.number ?? after;
          setCounts(rest);
          setElements((shown) => withNewer(shown, seen));
          setError('');
        }
      } catch (failure) {
        if (isOver) return;
        if (failure instanceof ApiError && failure.status === 404) {
          setPeekId(null);
          setError(t('The peek has ended.'));
          return;
        }
        setError(messageOf(failure));
      }
      timer = setTimeout(() => void look(), LOOK_MS);
    };
    void look();
    return () => {
      isOver = true;
      clearTimeout(timer);
      // it ends by itself, too
      endPeek(jobId, peekId).catch(() => undefined);
    };
  }, [jobId, peekId]);
  const begin = useCallback(
    (wanted: PeekRequest) => {
      setBeginning(true);
      setError('');
      setElements([]);
      setCounts(null);
      beginPeek(jobId, wanted)
        .then(({ id }) => {
          if (!isGone.current) setPeekId(id);
          // nobody waits for its rows any longer
          else endPeek(jobId, id).catch(() => undefined);
        })
        .catch((failure: unknown) => setError(messageOf(failure)))
        .finally(() => setBeginning(false));
    },
    [jobId],
  );
  const stop = useCallback(() => setPeekId(null), []);
  return { isOpen: peekId !== null, isBeginning, counts, elements, error, begin, stop };
}

function messageOf(failure: unknown): string {
  return failure instanceof Error ? failure.message : String(failure);
}
