/**
 * The preview of one open editor: what runs, what it has shown, and of which draft that was.
 *
 * It is apart from the editor's store, so that nothing of it is ever undone. `take` gets the server's documents, over
 * the socket or REST (see components/Editor/PreviewFeed); of a preview that was replaced they are ignored.
 */

import { createStore } from 'zustand/vanilla';

import { ApiError } from '../api/client';
import type { PreviewAnswer } from '../gen/contract';
import type { PipelineDocument } from '../model/pipeline/document';
import { completed } from '../model/pipeline/preview';

export const ROWS_CHOICES = [100, 1_000, 10_000, 100_000] as const;

export interface PreviewState {
  readonly shown: PreviewAnswer | null;
  /** The document that `shown` is of. */
  readonly previewed: PipelineDocument | null;
  readonly isStarting: boolean;
  /** A stop was asked for and has not happened yet. */
  readonly isStopping: boolean;
  /** Why it could not be started, or stopped. */
  readonly error: string | null;
  /** Of each source. */
  readonly rows: number;
  readonly startedAt: number | null;
  /** When the first rows were there. */
  readonly firstRowsAt: number | null;

  readonly start: (document: PipelineDocument) => Promise<void>;
  readonly stop: () => Promise<void>;
  readonly take: (answer: PreviewAnswer) => void;
  /** The server does not know the preview any more: what was shown of it stays. */
  readonly lose: (id: string) => void;
  readonly setRows: (rows: number) => void;
}

export interface PreviewCalls {
  readonly start: (document: PipelineDocument, rows: number) => Promise<PreviewAnswer>;
  readonly stop: (id: string) => Promise<void>;
}

export type PreviewStore = ReturnType<typeof createPreview>;

export function createPreview(calls: PreviewCalls, now: () => number = Date.now) {
  return createStore<PreviewState>()((set, get) => ({
    shown: null,
    previewed: null,
    isStarting: false,
    isStopping: false,
    error: null,
    rows: 10_000,
    startedAt: null,
    firstRowsAt: null,

    start: async (document) => {
      // a double click starts one
      if (get().isStarting) return;
      set({ isStarting: true, error: null });
      const startedAt = now();
      try {
        const shown = await calls.start(document, get().rows);
        set({ shown, previewed: document, isStarting: false, isStopping: false, startedAt, firstRowsAt: null });
      } catch (error) {
        // what was shown before stays
        set({ isStarting: false, error: messageOf(error) });
      }
    },
    stop: async () => {
      const { shown, isStopping } = get();
      if (shown?.state !== 'running' || isStopping) return;
      set({ isStopping: true, error: null });
      try {
        await calls.stop(shown.id);
      } catch (error) {
        if (isForgotten(error)) get().lose(shown.id);
        else set({ isStopping: false, error: messageOf(error) });
      }
    },
    take: (answer) => {
      const { shown, firstRowsAt } = get();
      if (shown?.id !== answer.id || answer.version < shown.version) return;
      if (answer.version === shown.version && answer.state === shown.state) return;
      const hasRows = Object.keys(answer.ports).length > 0;
      set({
        shown: completed(answer),
        firstRowsAt: firstRowsAt ?? (hasRows ? now() : null),
        ...(answer.state === 'running' ? {} : { isStopping: false }),
      });
    },
    lose: (id) => {
      const { shown } = get();
      if (shown?.id !== id || shown.state !== 'running') return;
      set({ shown: { ...shown, state: 'lost' }, isStopping: false });
    },
    setRows: (rows) => set({ rows }),
  }));
}

/** Whether the server says that there is no such preview: ten minutes after its end, or without Redis' data. */
export function isForgotten(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
