/** One query parameter as state, so that every tab and selection has a link. */

import { useCallback } from 'react';
import { useSearchParams } from 'react-router';

/**
 * Setting null removes the parameter; others stay. "push" adds a history entry, so that Back returns to the previous value:
 * for navigation, such as tabs. "replace" is for narrowing a view, such as filters.
 */
export function useQueryParam(
  name: string,
  history: 'push' | 'replace' = 'replace',
): [string | null, (value: string | null) => void] {
  const [params, setParams] = useSearchParams();
  const set = useCallback(
    (value: string | null) =>
      setParams(
        (old) => {
          const next = new URLSearchParams(old);
          if (value === null) next.delete(name);
          else next.set(name, value);
          return next;
        },
        { replace: history === 'replace' },
      ),
    [name, history, setParams],
  );
  return [params.get(name), set];
}
