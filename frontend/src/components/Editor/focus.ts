/** The focus for parts of the page that may not be drawn yet, such as a form whose code is still on its way. */

/** ms after which somebody who pressed a key does not expect its effect any more. */
const PATIENCE_MS = 5_000;

/** Focuses the first match now, or as soon as it is drawn, unless the focus has moved on or five seconds have passed. */
export function focusWhenDrawn(within: HTMLElement, selector: string): void {
  const found = within.querySelector<HTMLElement>(selector);
  if (found !== null) {
    found.focus();
    return;
  }
  const before = document.activeElement;
  const observer = new MutationObserver(() => {
    const drawn = within.querySelector<HTMLElement>(selector);
    if (drawn === null && document.activeElement === before) return;
    stop();
    if (document.activeElement === before) drawn?.focus();
  });
  const timer = setTimeout(() => observer.disconnect(), PATIENCE_MS);
  const stop = () => {
    clearTimeout(timer);
    observer.disconnect();
  };
  observer.observe(within, { childList: true, subtree: true });
}
