/** The history of a vertex or an edge: the server's of a window of time, which goes on with what the page sees. */

import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';

import { fetchHistory } from '../api/metrics';
import type { MetricHistory } from '../gen/contract';
import {
  EDGE,
  type EdgeSample,
  HISTORY_MS,
  KEPT,
  type KeptSample,
  type Mark,
  type Sample,
  type Subject,
  VERTEX,
  marksOf,
  merged,
  samplesOf,
  seriesOf,
} from '../model/history';
import { edgeHistory, vertexHistory } from '../store/metricHistory';
import { connection } from '../store/socket';
import { t } from '../texts/t';
import { useNow } from './useNow';

/** What the page keeps itself is longer; more often: requests for what it has seen. */
const REFRESH_MS = 60_000;
/** For what it does not see. */
const KEPT_REFRESH_MS = 15_000;
const NO_SAMPLES: readonly never[] = [];

interface Asked {
  readonly jobId: string;
  /** Of a vertex or an edge. */
  readonly id: string;
  readonly windowMs: number;
  /** Of the job, epoch ms; undefined while it goes on. */
  readonly end: number | undefined;
}

export interface History<S> {
  readonly samples: readonly S[];
  readonly marks: readonly Mark[];
  /** The server has not answered yet. */
  readonly isPending: boolean;
  /** Why the server does not tell more; null: all is there. */
  readonly problem: string | null;
  /** The server has told what it kept, if not just now. */
  readonly hasEarlier: boolean;
}

interface Told {
  readonly latest: MetricHistory;
  /** The latest one in which Redis has answered. */
  readonly available: MetricHistory | undefined;
}

/** `kept`: what the page does not see itself; it is a few seconds old. */
export function useVertexHistory(asked: Asked): History<Sample> & { readonly kept: readonly KeptSample[] } {
  const refreshMs = asked.windowMs > HISTORY_MS ? REFRESH_MS : KEPT_REFRESH_MS;
  const told = useTold(asked, seriesOf(asked.id, VERTEX, KEPT), refreshMs);
  const history = useMerged(told, VERTEX, asked, vertexHistory(asked.jobId, asked.id));
  const { available } = told;
  const kept = useMemo(
    () => (available === undefined ? NO_SAMPLES : samplesOf(available, KEPT, asked.id)),
    [available, asked.id],
  );
  return { ...history, kept };
}

export function useEdgeHistory(asked: Asked): History<EdgeSample> {
  const told = useTold(asked, seriesOf(asked.id, EDGE), REFRESH_MS);
  return useMerged(told, EDGE, asked, edgeHistory(asked.jobId, asked.id));
}

function useTold({ jobId, windowMs, end }: Asked, series: string, refreshMs: number) {
  const { data, error, isPending } = useQuery({
    queryKey: ['history', jobId, series, windowMs, end],
    queryFn: async ({ client, queryKey }): Promise<Told> => {
      const to = end ?? Date.now() + connection.clockOffset;
      const latest = await fetchHistory(jobId, series, Math.max(0, to - windowMs), end);
      return { latest, available: latest.is_available ? latest : client.getQueryData<Told>(queryKey)?.available };
    },
    refetchInterval: end === undefined ? refreshMs : false,
    staleTime: 0,
  });
  return { latest: data?.latest, available: data?.available, error, isPending };
}

function useMerged<F extends string>(
  { latest, available, error, isPending }: ReturnType<typeof useTold>,
  subject: Subject<F>,
  { id, windowMs }: Asked,
  seen: readonly Sample<F>[],
): History<Sample<F>> {
  // samples come once a second, as this does
  useNow();
  const earlier = useMemo(
    () => (available === undefined ? NO_SAMPLES : samplesOf(available, subject, id)),
    [available, subject, id],
  );
  const marks = useMemo(() => marksOf(latest?.events ?? []), [latest]);
  const step = available?.step ?? 0;
  const samples = useMemo(() => merged(earlier, seen, step, windowMs), [earlier, seen, step, windowMs]);
  return { samples, marks, isPending, problem: problemOf(latest, error), hasEarlier: available !== undefined };
}

function problemOf(latest: MetricHistory | undefined, error: Error | null): string | null {
  if (error !== null) return error.message;
  return latest?.is_available === false ? t('Redis does not answer in time.') : null;
}
