/**
 * Scrolling between pages as a browser does it between documents: Back and Forward lead to where a page was left, a new
 * page begins at its top. Parameters of a page, such as its tab, leave it where it is.
 */

import { useLayoutEffect, useRef } from 'react';
import { NavigationType, useLocation, useNavigationType } from 'react-router';

/** Time in which the content of a page may come, up to the height that it had. */
const PATIENCE_MS = 3_000;
/** The user scrolls. */
const INPUTS = ['wheel', 'touchmove', 'keydown', 'pointerdown'] as const;

const KEY = 'tidemark.scroll';
/** Entries of the history that are kept over a reload. */
const MAX_KEPT = 50;

/** Pixels from the top by the key of a history entry. */
const positions = read();

export function useScrollMemory(): void {
  const { key, pathname } = useLocation();
  const isReturn = useNavigationType() === NavigationType.Pop;
  const shown = useRef(pathname);
  useLayoutEffect(() => {
    const saved = isReturn ? positions.get(key) : undefined;
    const isNewPage = shown.current !== pathname;
    shown.current = pathname;
    if (saved === undefined && isNewPage) window.scrollTo(0, 0);
    const returning = saved === undefined ? null : returnTo(saved);
    const note = () => {
      if (returning?.isOver() !== false) positions.set(key, window.scrollY);
    };
    note();
    window.addEventListener('scroll', note, { passive: true });
    return () => {
      window.removeEventListener('scroll', note);
      returning?.end();
    };
  }, [key, pathname, isReturn]);
  useLayoutEffect(() => {
    // the browser restores the position of a page that is reloaded
    const leave = () => {
      window.history.scrollRestoration = 'auto';
      write();
    };
    window.history.scrollRestoration = 'manual';
    window.addEventListener('pagehide', leave);
    return () => {
      window.removeEventListener('pagehide', leave);
      leave();
    };
  }, []);
}

/** Scrolls there as soon as the page is tall enough, unless the user scrolls or it takes too long. */
function returnTo(position: number): { readonly isOver: () => boolean; readonly end: () => void } {
  let isOver = false;
  const end = () => {
    isOver = true;
    observer.disconnect();
    window.clearTimeout(timer);
    for (const input of INPUTS) window.removeEventListener(input, end);
  };
  const scroll = () => {
    window.scrollTo(0, position);
    if (Math.abs(window.scrollY - position) <= 1) end();
  };
  const observer = new ResizeObserver(scroll);
  const timer = window.setTimeout(end, PATIENCE_MS);
  for (const input of INPUTS) window.addEventListener(input, end, { passive: true });
  observer.observe(document.documentElement);
  scroll();
  return { isOver: () => isOver, end };
}

function read(): Map<string, number> {
  try {
    return new Map(JSON.parse(sessionStorage.getItem(KEY) ?? '[]') as [string, number][]);
  } catch {
    return new Map();
  }
}

function write(): void {
  try {
    sessionStorage.setItem(KEY, JSON.stringify([...positions].slice(-MAX_KEPT)));
  } catch {
    // no storage: pages begin at their tops after a reload
  }
}
