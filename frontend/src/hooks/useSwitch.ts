/** The newest switch of a job's execution, read again while it is under way. */

import { useQuery } from '@tanstack/react-query';

import { fetchSwitch } from '../api/switches';
import type { Switch } from '../gen/contract';
import { isUnderWay } from '../model/switches';

const POLL_MS = 1_000;

export const switchKey = (jobId: string) => ['switch', jobId] as const;

/** Null: there is none, or it is not known yet. */
export function useSwitch(jobId: string, isWanted: boolean): Switch | null {
  const { data } = useQuery({
    queryKey: switchKey(jobId),
    queryFn: () => fetchSwitch(jobId),
    enabled: isWanted,
    staleTime: 0,
    refetchInterval: ({ state }) => (state.data != null && isUnderWay(state.data) ? POLL_MS : false),
  });
  return data ?? null;
}
