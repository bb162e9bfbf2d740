/** Filtering and sorting of the job lists. */

import type { JobState, JobSummary } from '../gen/contract';
import { causeText } from './causes';
import { isTerminal } from './states';

export const JOB_COLUMNS = [
  'name',
  'state',
  'tasks_total',
  'records_in_per_second',
  'behind',
  'limit',
  'start_time',
  'end_time',
  'last_checkpoint',
  'duration',
] as const;
export type JobColumn = (typeof JOB_COLUMNS)[number];

export interface Sorting<Column extends string> {
  readonly column: Column;
  readonly descending: boolean;
}

/** A click on the sorted column reverses its direction; another column starts ascending. */
export function toggleSorting<Column extends string>(sorting: Sorting<Column>, column: Column): Sorting<Column> {
  return { column, descending: sorting.column === column ? !sorting.descending : false };
}

/** The form in URLs: the column, with a leading minus if descending. */
export function sortingText({ column, descending }: Sorting<string>): string {
  return descending ? `-${column}` : column;
}

/** Null if the text names none of the columns. */
export function parseSorting<Column extends string>(
  text: string | null,
  columns: readonly Column[],
): Sorting<Column> | null {
  const descending = text?.startsWith('-') ?? false;
  const column = columns.find((each) => each === (descending ? text?.slice(1) : text));
  return column === undefined ? null : { column, descending };
}

/** The tags of jobs, by the job's id. */
export type Tags = Readonly<Record<string, readonly string[]>>;

/** Jobs of which every word of the text is in the name, id, state, cause or tags, ignoring case. */
export function filterJobs(jobs: readonly JobSummary[], text: string, tags: Tags = {}): JobSummary[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return jobs.filter((job) => {
    const told = [job.name, job.id, job.state, limitText(job), ...(tags[job.id] ?? [])];
    const haystack = told.join(' ').toLowerCase();
    return words.every((word) => haystack.includes(word));
  });
}

export interface StateCount {
  readonly state: JobState;
  readonly count: number;
}

/** The states that jobs are in, those of jobs that have not ended first, with the number of each. */
export function countStates(jobs: readonly JobSummary[]): StateCount[] {
  const counts = new Map<JobState, number>();
  for (const { state } of jobs) counts.set(state, (counts.get(state) ?? 0) + 1);
  return STATES.flatMap((state) => {
    const count = counts.get(state);
    return count === undefined ? [] : [{ state, count }];
  });
}

/** In the order in which they are listed. */
const STATES: readonly JobState[] = [
  'RUNNING',
  'RESTARTING',
  'FAILING',
  'CANCELLING',
  'INITIALIZING',
  'CREATED',
  'RECONCILING',
  'SUSPENDED',
  'FAILED',
  'CANCELED',
  'FINISHED',
];

/** Of "RUNNING,FAILED"; what is no state is left out. */
export function parseStates(text: string | null): JobState[] {
  const names = (text ?? '').split(',');
  return STATES.filter((state) => names.includes(state));
}

/** Whether a choice of states, of which none means all, has any of jobs that have ended, or of those that have not. */
export function concerns(states: readonly JobState[], isEnded: boolean): boolean {
  return states.length === 0 || states.some((state) => isTerminal(state) === isEnded);
}

/** "map: busy"; empty: nothing limits it as far as is known. */
export function limitText({ limit }: JobSummary): string {
  return limit === null || limit === undefined ? '' : `${limit.name}: ${causeText(limit.cause)}`;
}

/** By how many ms a job is behind: the clock where its sources are live, else the newest of them; -1: unknown. */
export function distanceOf({ behind, lag }: JobSummary): number {
  return lag ?? behind ?? -1;
}

export function sortBy<Row, Column extends string>(
  rows: readonly Row[],
  sorting: Sorting<Column>,
  value: (row: Row, column: Column) => string | number,
): Row[] {
  const sign = sorting.descending ? -1 : 1;
  return rows.toSorted((a, b) => {
    const [x, y] = [value(a, sorting.column), value(b, sorting.column)];
    const order = typeof x === 'number' && typeof y === 'number' ? x - y : compareText(String(x), String(y));
    return sign * order;
  });
}

/** Runs of digits compare as numbers: job-9 comes before job-10. */
function compareText(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true, sensitivity: 'base' });
}
