/** A job's timeline as a strip: where its states and events lie, and how they are told in words. */

import type { JobTimeline, StateSpan, TimelineEvent, VertexRun } from '../gen/contract';
import { t } from '../texts/t';
import { formatDuration } from './format';
import type { Vertex } from './job';
import { isTerminal } from './states';

/** Percent of the strip's width. */
export interface Place {
  readonly left: number;
  readonly width: number;
}

/** Where something lies; what goes on reaches the end. */
export function placeOf(part: { begin: number; end: number | null }, { begin, now }: JobTimeline): Place {
  const whole = Math.max(1, now - begin);
  const left = clamp((100 * (part.begin - begin)) / whole);
  const right = clamp((100 * ((part.end ?? now) - begin)) / whole);
  return { left, width: Math.max(0, right - left) };
}

function clamp(percent: number): number {
  return Math.min(100, Math.max(0, percent));
}

export function lastedOf(part: { begin: number; end: number | null }, now: number): number {
  return Math.max(0, (part.end ?? now) - part.begin);
}

export type Entry =
  | { readonly at: number; readonly state: StateSpan; readonly event?: undefined }
  | { readonly at: number; readonly event: TimelineEvent; readonly state?: undefined };

/** States and events in one list, the newest first. */
export function entriesOf({ states, events }: JobTimeline): Entry[] {
  const entries: Entry[] = [
    ...states.map((state) => ({ at: state.begin, state })),
    ...events.map((event) => ({ at: event.begin, event })),
  ];
  // of the same time, what comes later in the lists is newer
  return entries.reverse().toSorted((a, b) => b.at - a.at);
}

/** By hand and by the autoscaler, the newest first: as many as a dialog has room for. */
export function rescalesOf({ events }: JobTimeline): TimelineEvent[] {
  return events
    .filter(({ kind }) => kind === 'rescale' || kind === 'autoscaler')
    .toReversed()
    .slice(0, MAX_RESCALES);
}

const MAX_RESCALES = 8;

/** RUNNING, attempt 3, for 2 m 05 s. */
export function stateText({ state, attempt, begin, end }: StateSpan, now: number): string {
  // an end does not last, however long the job's row was being written
  if (isTerminal(state)) return attempt === null ? state : t('{state}, attempt {attempt}', { state, attempt });
  const time = formatDuration(lastedOf({ begin, end }, now));
  return attempt === null
    ? t('{state}, for {time}', { state, time })
    : t('{state}, attempt {attempt}, for {time}', { state, attempt, time });
}

/** How often the job was started: attempts among its states, those that are kept. */
export function attemptsIn({ states }: JobTimeline): number {
  return new Set(states.map(({ attempt }) => attempt).filter((attempt) => attempt !== null)).size;
}

/** When a vertex ran, the newest attempt last. */
export interface Lane {
  readonly id: string;
  readonly name: string;
  readonly runs: readonly LaneRun[];
}

/** `end` is null: it still runs; `attempt` is null: it is the newest one. */
export type LaneRun = Pick<VertexRun, 'state' | 'begin' | 'end'> & { readonly attempt: number | null };

/**
 * Vertices in the order of the graph, those that have started.
 *
 * @param earlier runs of attempts before the newest one, oldest first.
 */
export function lanesOf(vertices: readonly Vertex[], earlier: readonly VertexRun[]): Lane[] {
  return vertices
    .map(({ id, name, state, start_time: begin, end_time: end }): Lane => {
      const before = earlier.filter(({ vertex }) => vertex === id);
      const newest = begin < 0 ? [] : [{ state, begin, end: end < 0 ? null : end, attempt: null }];
      return { id, name, runs: [...before, ...newest] };
    })
    .filter(({ runs }) => runs.length > 0);
}
