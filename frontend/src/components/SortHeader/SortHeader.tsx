/** A column header that sorts; a real button whose order is exposed to screen readers. */

import { IconArrowDown, IconArrowUp, IconArrowsSort } from '@tabler/icons-react';

import type { Sorting } from '../../model/jobList';
import classes from './SortHeader.module.css';

interface Props<Column extends string> {
  readonly column: Column;
  readonly label: string;
  readonly sorting: Sorting<Column>;
  readonly onToggle: (column: Column) => void;
  readonly numeric?: boolean;
}

export function SortHeader<Column extends string>({
  column,
  label,
  sorting,
  onToggle,
  numeric = false,
}: Props<Column>) {
  const isSorted = sorting.column === column;
  const SortIcon = !isSorted ? IconArrowsSort : sorting.descending ? IconArrowDown : IconArrowUp;
  return (
    <th
      scope="col"
      className={numeric ? 'tm-num' : undefined}
      aria-sort={isSorted ? (sorting.descending ? 'descending' : 'ascending') : 'none'}
    >
      <button
        type="button"
        className={classes.button}
        data-sorted={isSorted || undefined}
        onClick={() => onToggle(column)}
      >
        {label}
        <SortIcon size={13} aria-hidden className={classes.icon} />
      </button>
    </th>
  );
}
