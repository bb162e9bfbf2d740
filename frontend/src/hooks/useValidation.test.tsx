// @vitest-environment happy-dom
import { cleanup, renderHook } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { PipelineDocument } from '../model/pipeline/document';
import { moveNodes, toggleDisabled } from '../model/pipeline/operations';
import { catalog, line } from '../model/pipeline/testPipelines';
import { createEditor, documentOf } from '../store/editor';
import { useValidation } from './useValidation';

/** The requests that wait for an answer: `true` validates, `false` fails. */
let asked: ((isUp: boolean) => void)[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  vi.stubGlobal(
    'fetch',
    () =>
      new Promise<Response>((resolve, reject) => {
        const answer = { tag: 't', problems: [], is_deployable: true, since: null };
        const body = JSON.stringify({ ...answer, ports: {}, facts: {}, labels: {}, inactive: [] });
        asked.push((isUp) => (isUp ? resolve(new Response(body)) : reject(new TypeError('network'))));
      }),
  );
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function answered(isUp = true): Promise<void> {
  asked.shift()?.(isUp);
  await vi.advanceTimersByTimeAsync(0);
}

function edited() {
  const document = line();
  const head = { number: 1, document };
  const store = createEditor({ pipelineId: 'p', catalog, document, head, isReadOnly: false });
  renderHook(() => useValidation(store));
  const [node = ''] = Object.keys(document.nodes);
  return {
    store,
    edit: (change: (before: PipelineDocument) => PipelineDocument) => store.getState().transact('Edited', change),
    isValidated: () => store.getState().validated === documentOf(store.getState()),
    node,
  };
}

test('a box that is moved while the server looks at an edit leaves the document validated', async () => {
  const { edit, isValidated, node } = edited();
  await answered();
  expect(isValidated()).toBe(true);
  edit((before) => toggleDisabled(before, [node]));
  await vi.advanceTimersByTimeAsync(250);
  edit((before) => moveNodes(before, { [node]: [70, 70] }));
  await vi.advanceTimersByTimeAsync(250);
  expect([asked.length, isValidated()]).toEqual([1, false]);
  await answered();
  expect(isValidated()).toBe(true);
});

test('a server that does not answer is asked again without another edit', async () => {
  const { store, isValidated } = edited();
  await answered(false);
  expect([store.getState().validationError, isValidated()]).toEqual(['The server cannot be reached.', false]);
  await vi.advanceTimersByTimeAsync(5000);
  await answered();
  expect([store.getState().validationError, isValidated()]).toEqual([null, true]);
});
