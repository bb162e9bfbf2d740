/** One request at a time: the second click of a double click comes before the button is seen to be busy. */

import { useCallback, useRef } from 'react';

type Mutate<T> = (variables: T, options: { onSettled: () => void }) => void;

/** `mutate` of a mutation, which does nothing while its last call has not been answered. */
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
