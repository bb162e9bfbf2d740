/** Opens the command palette by Ctrl+K, anywhere but in a dialog. */

import { Suspense, lazy, useEffect, useState } from 'react';

const CommandPalette = lazy(async () => ({ default: (await import('./CommandPalette')).CommandPalette }));

export function CommandKey() {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey || event.key.toLowerCase() !== 'k')
        return;
      event.preventDefault();
      if (event.target instanceof Element && event.target.closest('[role="dialog"]') !== null) return;
      setOpen(true);
    };
    window.addEventListener('keydown', onKey);
    return () => window.removeEventListener('keydown', onKey);
  }, []);
  return isOpen ? (
    <Suspense>
      <CommandPalette onClose={() => setOpen(false)} />
    </Suspense>
  ) : null;
}
