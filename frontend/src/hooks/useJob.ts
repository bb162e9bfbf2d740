/**
 * The job that a page shows, part by part: a component renders again only when the part that it reads has changed.
 * Below a `JobProvider`, which is rendered once the document is there.
 */

import { createContext, useCallback, useContext, useSyncExternalStore } from 'react';

import { fetchJobTopic, fetchOperatorsTopic, fetchVertexTopic } from '../api/jobs';
import type { JobEventTime, LiveJob, LiveOperators, LiveVertex } from '../gen/contract';
import { behindOf, liveLagOf } from '../model/eventTime';
import {
  type Job,
  type JobWithOperators,
  type Metrics,
  type Vertex,
  eventTimeOf,
  jobOf,
  metricsOfVertex,
  vertexOf,
  verticesOf,
  withOperators,
} from '../model/job';
import { type Live, LiveContext, useArrival, useLive, useTopic } from './useLive';
import { useThroughSight } from './useSight';

const JobContext = createContext('');

/** Its value is the job's id. */
export const JobProvider = JobContext.Provider;

export function useJobId(): string {
  return useContext(JobContext);
}

/** Whether the job's document is there, and why not. Subscribes to it: to be called above the `JobProvider`. */
export function useJobArrival(id: string) {
  const read = useCallback(() => fetchJobTopic(id), [id]);
  return useArrival(topicOf(id), read);
}

/** The selected part must keep its identity as long as it does not change. */
export function useJobPart<T>(select: (job: LiveJob) => T): T {
  return useTopic(topicOf(useJobId()), (state) => select(state.data as LiveJob));
}

/** The document as it is when the function is called. */
export function useReadJob(): () => LiveJob {
  const live = useContext(LiveContext);
  const id = useJobId();
  return useCallback(() => live.topic(topicOf(id)).data as LiveJob, [live, id]);
}

export function useJob(): Job {
  return useJobPart(({ static: fixed, moving }) => jobOf(fixed, moving.job));
}

/** Sources first; without figures. */
export function useVertices(): readonly Vertex[] {
  return useJobPart(({ static: fixed, moving }) => verticesOf(fixed, moving.vertices));
}

/** Undefined: the job has no such vertex. */
export function useVertex(id: string): Vertex | undefined {
  return useJobPart((job) => vertexOf(job.static, job.moving.vertices, id));
}

export function useMetrics(vertexId: string): Metrics | undefined {
  return useJobPart((job) => metricsOfVertex(job, vertexId));
}

/** Undefined: the server says nothing of it. */
export function useEventTime(): JobEventTime | undefined {
  return useJobPart(eventTimeOf);
}

/** ms by which a vertex is behind the newest watermark of the sources; null: unknown. */
export function useBehind(vertexId: string): number | null {
  return useJobPart((job) => behindOf(metricsOfVertex(job, vertexId)?.watermark ?? null, eventTimeOf(job), vertexId));
}

/** ms by which a vertex is behind the clock; null unless its sources are live. */
export function useLiveLag(vertexId: string): number | null {
  return useJobPart((job) =>
    liveLagOf(metricsOfVertex(job, vertexId)?.watermark ?? null, job.now, job.derived.event_time, vertexId),
  );
}

/** The subtasks of a vertex, a topic of their own: subscribed to while a component that calls this is shown. */
export function useSubtasks(vertexId: string): Live<LiveVertex> {
  const jobId = useJobId();
  const read = useCallback(() => fetchVertexTopic(jobId, vertexId), [jobId, vertexId]);
  return useLive<LiveVertex>(`${topicOf(jobId)}/vertex:${vertexId}`, read);
}

/** Why the operators' figures are not there, a topic of their own: subscribed to while a component that calls this is shown. */
export function useOperatorsArrival() {
  const jobId = useJobId();
  const read = useCallback(() => fetchOperatorsTopic(jobId), [jobId]);
  return useArrival(operatorsTopicOf(jobId), read);
}

/** As `useJobPart`, with the figures of operators; below a component that calls `useOperatorsArrival`. */
export function useOperatorsPart<T>(select: (job: JobWithOperators) => T): T {
  const live = useContext(LiveContext);
  const id = useJobId();
  const subscribe = useCallback(
    (listener: () => void) => {
      const ends = [topicOf(id), operatorsTopicOf(id)].map((topic) => live.subscribe(topic, listener));
      return () => ends.forEach((end) => end());
    },
    [live, id],
  );
  return useSyncExternalStore(useThroughSight(subscribe), () =>
    select(
      withOperators(
        live.topic(topicOf(id)).data as LiveJob,
        live.topic(operatorsTopicOf(id)).data as LiveOperators | undefined,
      ),
    ),
  );
}

function operatorsTopicOf(jobId: string): `job:${string}` {
  return `${topicOf(jobId)}/operators`;
}

function topicOf(jobId: string): `job:${string}` {
  return `job:${jobId}`;
}
