/** Enter and clicks in a form that still loads: they are remembered, and done as soon as the form can. */

import { useEffect, useEffectEvent, useState } from 'react';

export interface WhenReady {
  /** Acts, now or when all is ready. */
  readonly ask: () => void;
  /** Whether something was asked for that cannot be done yet. */
  readonly isWaiting: boolean;
}

/**
 * Calls `act` once it was asked for and `isReady` is true, whichever comes last.
 *
 * `about` is what is asked about, by identity: if that changes before all is ready, the wish is forgotten. The button
 * may not be `disabled` before somebody asked, because browsers drop Enter in a form whose button is.
 */
export function useWhenReady(isReady: boolean, act: () => void, about: unknown = null): WhenReady {
  const [asked, setAsked] = useState<{ readonly about: unknown } | null>(null);
  const [due, setDue] = useState<object | null>(null);
  if (asked !== null && asked.about !== about) setAsked(null);
  else if (asked !== null && isReady) {
    setAsked(null);
    setDue(asked);
  }
  const onDue = useEffectEvent(act);
  useEffect(() => {
    if (due !== null) onDue();
  }, [due]);
  return {
    ask: () => {
      if (isReady) act();
      else setAsked({ about });
    },
    isWaiting: asked !== null,
  };
}
