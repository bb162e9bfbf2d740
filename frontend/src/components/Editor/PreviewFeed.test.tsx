// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, waitFor } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';

import type { PreviewAnswer } from '../../gen/contract';
import { LiveContext } from '../../hooks/useLive';
import { PreviewContext } from '../../hooks/usePreview';
import { line } from '../../model/pipeline/testPipelines';
import { LiveConnection } from '../../store/liveConnection';
import { createPreview } from '../../store/preview';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { PreviewFeed } from './PreviewFeed';

const RUNNING: PreviewAnswer = {
  id: 'a',
  version: 1,
  semantic_hash: '',
  state: 'running',
  ports: {},
  problems: [],
  pinned: [],
  end: null,
};

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

async function fed(status: number) {
  const asked: string[] = [];
  vi.stubGlobal('fetch', (url: string) => {
    asked.push(url);
    return Promise.resolve(new Response(JSON.stringify({ errors: [] }), { status }));
  });
  const store = createPreview({ start: () => Promise.resolve(RUNNING), stop: () => Promise.resolve() });
  await store.getState().start(line());
  render(
    <QueryClientProvider client={new QueryClient()}>
      <LiveContext value={new LiveConnection(() => new ScriptedSocket())}>
        <PreviewContext value={store}>
          <PreviewFeed />
        </PreviewContext>
      </LiveContext>
    </QueryClientProvider>,
  );
  await waitFor(() => expect(asked).toHaveLength(1));
  return store;
}

test('a preview that the server has forgotten is shown as lost', async () => {
  const store = await fed(404);
  await waitFor(() => expect(store.getState().shown?.state).toBe('lost'));
});

test('a server that does not answer loses no preview', async () => {
  const store = await fed(503);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(store.getState().shown?.state).toBe('running');
});
