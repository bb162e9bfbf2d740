/** One timer for everything on the page that shows elapsed time; runs only while subscribed to. */

const PERIOD_MS = 1_000;

const listeners = new Set<() => void>();
let timer: number | undefined;
let current = Date.now();

export function subscribeTicker(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === undefined) {
    current = Date.now();
    timer = window.setInterval(() => {
      current = Date.now();
      for (const each of [...listeners]) each();
    }, PERIOD_MS);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The local clock as of the last tick. */
export function tickerNow(): number {
  return current;
}
