/** Asks the server what it says of the document, a moment after each edit that may change the answer. */

import { replaceEqualDeep } from '@tanstack/react-query';
import { useEffect } from 'react';

import { ApiError } from '../api/client';
import { validate } from '../api/pipelines';
import type { PipelineDocument } from '../model/pipeline/document';
import { type EditorStore, documentOf } from '../store/editor';

const PAUSE_MS = 200;
const RETRY_MS = 3000;

const SEMANTIC = ['nodes', 'edges', 'settings', 'parameters', 'types', 'code'] as const;

function isSame(one: PipelineDocument | null, other: PipelineDocument): boolean {
  return one !== null && SEMANTIC.every((part) => one[part] === other[part]);
}

export function useValidation(store: EditorStore): void {
  useEffect(() => {
    let asked: PipelineDocument | null = null;
    let waiting: ReturnType<typeof setTimeout> | undefined;
    let running: AbortController | undefined;
    const ask = () => {
      const document = documentOf(store.getState());
      if (isSame(asked, document)) {
        if (store.getState().validated !== null && running === undefined) store.setState({ validated: document });
        return;
      }
      asked = document;
      running?.abort();
      const controller = new AbortController();
      running = controller;
      validate(document, store.getState().validation, controller.signal).then(
        (answer) => {
          if (running !== controller) return;
          running = undefined;
          // what has not changed stays the same object: only nodes that an edit reaches are painted again
          const validation = replaceEqualDeep(store.getState().validation, answer);
          // a box that was moved meanwhile changes nothing of it
          const present = documentOf(store.getState());
          const validated = isSame(document, present) ? present : document;
          store.setState({ validation, validated, validationError: null });
        },
        (error: unknown) => {
          if (running !== controller) return;
          running = undefined;
          asked = null;
          clearTimeout(waiting);
          waiting = setTimeout(ask, RETRY_MS);
          store.setState({ validationError: error instanceof ApiError ? error.message : String(error) });
        },
      );
    };
    ask();
    const unsubscribe = store.subscribe((state, before) => {
      if (documentOf(state) === documentOf(before)) return;
      clearTimeout(waiting);
      waiting = setTimeout(ask, PAUSE_MS);
    });
    return () => {
      unsubscribe();
      clearTimeout(waiting);
      running?.abort();
    };
  }, [store]);
}
