/** Filtering and sorting of the job lists. */

import type { JobSummary } from '../gen/contract';

export const JOB_COLUMNS = [
  'name',
  'state',
  'tasks_total',
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

/** Jobs whose name, id or state contains every word of the text, ignoring case. */
export function filterJobs(jobs: readonly JobSummary[], text: string): JobSummary[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return jobs.filter((job) => {
    const haystack = `${job.name} ${job.id} ${job.state}`.toLowerCase();
    return words.every((word) => haystack.includes(word));
  });
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
