/** Loads the tour when the user takes it. */

import { Suspense, lazy } from 'react';

import { useTour } from '../../hooks/useTour';

const Tour = lazy(async () => ({ default: (await import('./Tour')).Tour }));

export function TourHost({ user }: { readonly user: string }) {
  const { state } = useTour(user);
  return state !== 'open' ? null : (
    <Suspense fallback={null}>
      <Tour user={user} />
    </Suspense>
  );
}
