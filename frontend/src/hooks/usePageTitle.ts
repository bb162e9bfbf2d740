/** Sets the window's title. */

import { useEffect } from 'react';

export function usePageTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Tidemark`;
  }, [title]);
}
