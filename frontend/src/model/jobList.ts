/** Filtering and sorting of the job lists. */

import type { JobSummary } from '../gen/live';

export type JobColumn = 'name' | 'start_time' | 'duration' | 'end_time' | 'tasks_total' | 'state' | 'last_checkpoint';

export interface Sorting<Column extends string> {
  readonly column: Column;
  readonly descending: boolean;
}

/** A click on the sorted column turns its direction; on another one it starts ascending. */
export function toggleSorting<Column extends string>(sorting: Sorting<Column>, column: Column): Sorting<Column> {
  return { column, descending: sorting.column === column ? !sorting.descending : false };
}

/** Jobs whose name, id or state holds every word of the text, whatever the case. */
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
