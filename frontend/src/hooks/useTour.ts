/** Where the user is in the tour. */

import { useSyncExternalStore } from 'react';

import type { TourState } from '../model/tour';
import { subscribeTour, tourOfUser } from '../store/tour';

export function useTour(user: string): TourState {
  return useSyncExternalStore(subscribeTour, () => tourOfUser(user));
}
