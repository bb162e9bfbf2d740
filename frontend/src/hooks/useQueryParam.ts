/** One query parameter as state, so that every tab and selection has a link. */

import { useCallback } from 'react';
import { useSearchParams } from 'react-router';

/**
 * Setting null removes the parameter; others stay. "push" makes a history entry, so that Back goes to the value before:
 * for what one goes to, as a tab. "replace" is for what one narrows a view by, as a filter.
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
