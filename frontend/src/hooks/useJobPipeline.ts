/** The pipeline that a job was drawn as; asked for once. */

import { useQuery } from '@tanstack/react-query';

import { fetchJobPipeline } from '../api/deployments';
import { compile, fetchVersion } from '../api/pipelines';
import type { JobPipeline, ProgramLines } from '../gen/contract';
import type { PipelineDocument } from '../model/pipeline/document';

/** Null: the job was not drawn, or it is not known yet. */
export function useJobPipeline(jobId: string): JobPipeline | null {
  const { data } = useQuery({
    queryKey: ['job-pipeline', jobId],
    queryFn: () => fetchJobPipeline(jobId),
    staleTime: Infinity,
    retry: 1,
  });
  return data ?? null;
}

export interface JobProgram {
  readonly document: PipelineDocument;
  readonly lines: readonly ProgramLines[];
}

/** The document of the version that a job is of, and which lines of its program belong to which node; why not, if not. */
export function useJobProgram(
  pipeline: JobPipeline | null,
  isWanted: boolean,
): { readonly program: JobProgram | null; readonly error: string | null } {
  const { data, error } = useQuery({
    queryKey: ['job-program', pipeline?.pipeline, pipeline?.version],
    queryFn: async ({ signal }) => {
      const { document } = await fetchVersion(pipeline?.pipeline ?? '', pipeline?.version ?? 0);
      return { document, lines: (await compile(document, signal)).lines };
    },
    enabled: pipeline !== null && isWanted,
    staleTime: Infinity,
    retry: 1,
  });
  return { program: data ?? null, error: error?.message ?? null };
}
