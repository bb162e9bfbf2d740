/** The preview and the test runs of the open editor, for the components below it. */

import { createContext, useContext, useEffect, useMemo } from 'react';
import { useStore } from 'zustand';

import { type Place, staleNodes } from '../model/pipeline/preview';
import { stopPreview } from '../api/pipelines';
import { type EditorStore, documentOf } from '../store/editor';
import type { PreviewState, PreviewStore } from '../store/preview';
import type { TestRunsState, TestRunsStore } from '../store/testRuns';
import { useEditor } from './useEditor';

export const PreviewContext = createContext<PreviewStore | null>(null);

export function usePreviewStore(): PreviewStore {
  const store = useContext(PreviewContext);
  if (store === null) throw new Error('there is no editor around this component');
  return store;
}

export function usePreview<T>(selector: (state: PreviewState) => T): T {
  return useStore(usePreviewStore(), selector);
}

export const TestRunsContext = createContext<TestRunsStore | null>(null);

export function useTestRunsStore(): TestRunsStore {
  const store = useContext(TestRunsContext);
  if (store === null) throw new Error('there is no editor around this component');
  return store;
}

export function useTestRuns<T>(selector: (state: TestRunsState) => T): T {
  return useStore(useTestRunsStore(), selector);
}

const NONE: ReadonlySet<string> = new Set();
export const StaleContext = createContext<ReadonlySet<string>>(NONE);

/** Nodes whose rows are of an earlier draft; to be computed once for all of them. */
export function useStaleNodes(): ReadonlySet<string> {
  const document = useEditor(documentOf);
  const previewed = usePreview((state) => state.previewed);
  return useMemo(
    () => (previewed === null || previewed === document ? NONE : staleNodes(previewed, document)),
    [previewed, document],
  );
}

/** Rows that have passed a port; null: nothing is known. */
export function useRowsAt(place: Place | undefined): number | null {
  return usePreview(({ shown }) => (place === undefined ? null : (shown?.ports[place[0]]?.[place[1]]?.rows ?? null)));
}

export function useIsStale(node: string): boolean {
  return useContext(StaleContext).has(node);
}

/** Starts and stops previews of the open document; who leaves the page stops the one that runs. */
export function usePreviewing(store: EditorStore, onStart: () => void) {
  const preview = usePreviewStore();
  useEffect(
    () => () => {
      const { shown } = preview.getState();
      if (shown?.state === 'running') stopPreview(shown.id, true).catch(() => undefined);
    },
    [preview],
  );
  const start = () => {
    if (store.getState().isReadOnly) return;
    onStart();
    void preview.getState().start(documentOf(store.getState()));
  };
  const stop = () => void preview.getState().stop();
  const toggle = () => (preview.getState().shown?.state === 'running' ? stop() : start());
  return { start, stop, toggle };
}
