/** One request at a time: the second click of a double click arrives before the button is disabled. */

import { useCallback, useRef } from 'react';

type Mutate<T> = (variables: T, options: { onSettled: () => void }) => void;

/** `mutate` of a mutation that ignores calls while one is in progress. */
export function useSingleFlight<T>(mutate: Mutate<T>): (variables: T) => void {
  const isInFlight = useRef(false);
  return useCallback(
    (variables: T) => {
      if (isInFlight.current) return;
      isInFlight.current = true;
      mutate(variables, {
        onSettled: () => {
          isInFlight.current = false;
        },
      });
    },
    [mutate],
  );
}
