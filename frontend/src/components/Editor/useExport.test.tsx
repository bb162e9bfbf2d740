// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';

import { EditorContext } from '../../hooks/useEditor';
import * as operations from '../../model/pipeline/operations';
import { catalog, line } from '../../model/pipeline/testPipelines';
import { createEditor, documentOf } from '../../store/editor';
import { useExport } from './useExport';

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

function Button() {
  const save = useExport();
  return <button onClick={save}>Export</button>;
}

test('what is drawn is exported by the server, and the page says what was left out', async () => {
  const posted: unknown[] = [];
  const saved: Blob[] = [];
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    posted.push([url, JSON.parse(init.body as string)]);
    const answer = { file_name: 'line.json', text: 'the text', stripped: ['/nodes/n2/params/text'] };
    return Promise.resolve(new Response(JSON.stringify(answer)));
  });
  vi.spyOn(URL, 'createObjectURL').mockImplementation((blob) => {
    saved.push(blob as Blob);
    return 'blob:x';
  });
  const document = line();
  const head = { number: 1, document };
  const editor = createEditor({ pipelineId: 'p', catalog, document, head, isReadOnly: false });
  render(
    <MantineProvider env="test">
      <Notifications />
      <QueryClientProvider client={new QueryClient()}>
        <EditorContext value={editor}>
          <Button />
        </EditorContext>
      </QueryClientProvider>
    </MantineProvider>,
  );
  act(() => void editor.getState().transact('More', (before) => operations.setParam(before, 'n2', 'text', 'drawn')));
  fireEvent.click(screen.getByText('Export'));
  await screen.findByText(/were left out of \/nodes\/n2\/params\/text$/);
  const body = { document: documentOf(editor.getState()), format: 'json' };
  expect(posted).toEqual([['/api/v1/pipelines/export', body]]);
  await waitFor(() => expect(saved).toHaveLength(1));
  expect(await saved[0]?.text()).toBe('the text');
});
