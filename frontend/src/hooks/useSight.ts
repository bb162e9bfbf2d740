/** Parts of the page that follow changes only while they are in sight; the hooks for what is live read it. */

import { type RefCallback, createContext, useCallback, useContext, useState } from 'react';

import { IN_SIGHT, Sight } from '../store/sight';

/** That of the part that a component is in. */
export const SightContext = createContext(IN_SIGHT);

/** For a part of the page: `ref` is for its element, `sight` for a `SightContext` around what it shows. */
export function useSight(): { readonly ref: RefCallback<Element>; readonly sight: Sight } {
  const [sight] = useState(() => new Sight());
  const ref = useCallback(
    (element: Element | null) => {
      if (element === null) return;
      watched.set(element, sight);
      const observer = shared();
      observer.observe(element);
      return () => observer.unobserve(element);
    },
    [sight],
  );
  return { ref, sight };
}

/** A function that subscribes as this one does; what is out of sight hears of changes late. */
export function useThroughSight(subscribe: (listener: () => void) => () => void) {
  const sight = useContext(SightContext);
  return useCallback((listener: () => void) => sight.through(subscribe, listener), [sight, subscribe]);
}

const watched = new WeakMap<Element, Sight>();
let observer: IntersectionObserver | undefined;

/** One for all: each of its own is as much work as all together. */
function shared(): IntersectionObserver {
  observer ??= new IntersectionObserver((entries) => {
    for (const { target, isIntersecting, boundingClientRect } of entries) {
      const sight = watched.get(target);
      // what shows nothing at present has no place that could be out of sight
      if (sight !== undefined) sight.isIn = isIntersecting || boundingClientRect.height === 0;
    }
  }, MARGINS);
  return observer;
}

/** What is about to be scrolled into the window, or into the box that cuts it off, is in sight already. */
const MARGINS: IntersectionObserverInit & { readonly scrollMargin: string } = {
  rootMargin: '120px',
  scrollMargin: '120px',
};
