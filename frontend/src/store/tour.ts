/** Where a user is in the tour, in this browser. */

import { BEGINNING, type TourMove, type TourState, moved, tourOf } from '../model/tour';

const listeners = new Set<() => void>();
const tours = new Map<string, TourState>();

function keyOf(user: string): string {
  return `tidemark.tour.${user}`;
}

export function tourOfUser(user: string): TourState {
  const known = tours.get(user);
  if (known !== undefined) return known;
  let read = BEGINNING;
  try {
    read = tourOf(localStorage.getItem(keyOf(user)));
  } catch {
    // storage is blocked: the tour lasts as long as the page
  }
  tours.set(user, read);
  return read;
}

export function moveTour(user: string, move: TourMove): void {
  const made = moved(tourOfUser(user), move);
  tours.set(user, made);
  try {
    localStorage.setItem(keyOf(user), JSON.stringify(made));
  } catch {
    // as above
  }
  for (const listener of [...listeners]) listener();
}

export function openTour(user: string): void {
  moveTour(user, 'open');
}

export function subscribeTour(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
