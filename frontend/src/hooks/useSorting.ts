/** The sorted column of a table, kept in the URL, so that reloads and links show the same. */

import { useCallback } from 'react';

import { type Sorting, parseSorting, sortingText, toggleSorting } from '../model/jobList';
import { useQueryParam } from './useQueryParam';

/** `param` is the query parameter; `columns` are its allowed values. */
export function useSorting<Column extends string>(
  param: string,
  columns: readonly Column[],
  initial: Sorting<NoInfer<Column>>,
) {
  const [text, setText] = useQueryParam(param);
  const sorting = parseSorting(text, columns) ?? initial;
  const { column: sorted, descending } = sorting;
  const toggle = useCallback(
    (column: Column) => setText(sortingText(toggleSorting({ column: sorted, descending }, column))),
    [sorted, descending, setText],
  );
  return { sorting, toggle };
}
