/** One query parameter as state, so that every tab and selection has a link. */

import { useCallback } from 'react';
import { useSearchParams } from 'react-router';

/** Setting null removes the parameter; others stay. Replaces the history entry: "back" leaves the page. */
export function useQueryParam(name: string): [string | null, (value: string | null) => void] {
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
        { replace: true },
      ),
    [name, setParams],
  );
  return [params.get(name), set];
}
