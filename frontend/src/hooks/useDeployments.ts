/** The deployments of a pipeline: read often while one is under way. */

import { useQuery } from '@tanstack/react-query';

import { fetchDeployments } from '../api/deployments';
import type { DeploymentAnswer, LiveCluster } from '../gen/contract';
import { isUnderWay, runningOf } from '../model/pipeline/deployment';
import { useTopic } from './useLive';

const FAST_MS = 1000;
const SLOW_MS = 10_000;

export function deploymentsKey(pipeline: string): readonly [string, string] {
  return ['pipeline-deployments', pipeline];
}

export interface Deployments {
  /** Newest first; null: not known yet. */
  readonly all: readonly DeploymentAnswer[] | null;
  readonly newest: DeploymentAnswer | null;
  readonly running: DeploymentAnswer | null;
  readonly error: string | null;
  /** When `all` was read, epoch ms; 0: not yet. */
  readonly readAt: number;
}

export function useDeployments(pipeline: string): Deployments {
  const { data, error, dataUpdatedAt } = useQuery({
    queryKey: deploymentsKey(pipeline),
    queryFn: () => fetchDeployments(pipeline),
    refetchInterval: ({ state }) => (state.data?.some(isUnderWay) === true ? FAST_MS : SLOW_MS),
  });
  return {
    all: data ?? null,
    newest: data?.[0] ?? null,
    running: data === undefined ? null : runningOf(data),
    error: error?.message ?? null,
    readAt: dataUpdatedAt,
  };
}

/** A job's state as it is now; null: the live documents do not have it. */
export function useJobState(jobId: string | null): string | null {
  return useTopic('cluster', ({ data }) => {
    const jobs = (data as LiveCluster | undefined)?.jobs;
    return jobs?.[jobId ?? '']?.state ?? null;
  });
}
