/** What the editor's URL names: a version to read, two sides to compare, a node with a line of its Python, a panel. */

import { useCallback } from 'react';
import { useSearchParams } from 'react-router';

export type EditorLink = 'version' | 'compare' | 'restore' | 'node' | 'line' | 'panel' | 'deploy' | 'from';

export interface EditorLinks {
  /** The version that is shown read-only; null: the draft is edited. */
  readonly version: number | null;
  /** Sides as `Compare` takes them. */
  readonly compare: string | null;
  /** A version that becomes the draft. */
  readonly restore: number | null;
  readonly node: string | null;
  readonly line: number | null;
  readonly isVersions: boolean;
  /** A version that the dialog for deploying it opens with. */
  readonly deploy: number | null;
  /** The snapshot that it is to start from; "empty": none. */
  readonly from: string | null;
  /** Changes some of them at once; null removes one. "replace" leaves nothing for Back. */
  readonly go: (changes: Readonly<Partial<Record<EditorLink, string | null>>>, history?: 'push' | 'replace') => void;
}

export function useEditorLinks(): EditorLinks {
  const [params, setParams] = useSearchParams();
  const go = useCallback<EditorLinks['go']>(
    (changes, history = 'push') =>
      setParams(
        (old) => {
          const next = new URLSearchParams(old);
          for (const [name, value] of Object.entries(changes)) {
            if (value === null) next.delete(name);
            else next.set(name, value);
          }
          return next;
        },
        { replace: history === 'replace' },
      ),
    [setParams],
  );
  return {
    version: numberIn(params, 'version'),
    compare: params.get('compare'),
    restore: numberIn(params, 'restore'),
    node: params.get('node'),
    line: numberIn(params, 'line'),
    isVersions: params.get('panel') === 'versions',
    deploy: numberIn(params, 'deploy'),
    from: params.get('from'),
    go,
  };
}

function numberIn(params: URLSearchParams, name: string): number | null {
  const text = params.get(name) ?? '';
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : null;
}
