/** The sorted column of a table. */

import { useCallback, useState } from 'react';

import { type Sorting, toggleSorting } from '../model/jobList';

export function useSorting<Column extends string>(initial: Sorting<Column>) {
  const [sorting, setSorting] = useState(initial);
  const toggle = useCallback((column: Column) => setSorting((old) => toggleSorting(old, column)), []);
  return { sorting, toggle };
}
