/** Which items of a list are open, kept in the URL, so that a link opens them: `checkpoint=7,8`. */

import { useCallback } from 'react';

import { useQueryParam } from './useQueryParam';

export function useOpenItems(param: string): [ReadonlySet<string>, (item: string) => void] {
  const [text, setText] = useQueryParam(param);
  const toggle = useCallback(
    (item: string) => {
      const open = items(text);
      const next = open.includes(item) ? open.filter((other) => other !== item) : [...open, item];
      setText(next.length === 0 ? null : next.join(','));
    },
    [text, setText],
  );
  return [new Set(items(text)), toggle];
}

function items(text: string | null): string[] {
  return (text ?? '').split(',').filter(Boolean);
}
