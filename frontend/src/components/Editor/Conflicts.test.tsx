// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, expect, test } from 'vitest';

import { EditorContext } from '../../hooks/useEditor';
import { mergeDocuments } from '../../model/pipeline/merge';
import * as operations from '../../model/pipeline/operations';
import { catalog, idsFrom, line, seeded } from '../../model/pipeline/testPipelines';
import { createEditor, documentOf } from '../../store/editor';
import { Conflicts } from './Conflicts';

afterEach(cleanup);

/** An editor with a conflict about the text of n2. */
function conflicting() {
  const ours = operations.setParam(line(), 'n2', 'text', 'ours');
  const { document, conflicts } = mergeDocuments(line(), ours, operations.setParam(line(), 'n2', 'text', 'theirs'));
  const head = { number: 1, document };
  const opened = { pipelineId: 'p', catalog, document, head, isReadOnly: false };
  const editor = createEditor(opened);
  editor.setState({ conflicts });
  render(
    <MantineProvider>
      <EditorContext value={editor}>
        <Conflicts />
      </EditorContext>
    </MantineProvider>,
  );
  return editor;
}

const texts = () => [...document.querySelectorAll('pre')].map((each) => each.textContent);

function take(index: number): void {
  const buttons = screen.getAllByRole('button', { name: 'Take this' });
  fireEvent.click(buttons[index] ?? document.body);
}

test('what is here stays as it was written since, and the banner goes', () => {
  const editor = conflicting();
  act(() => void editor.getState().transact('More', (before) => operations.setParam(before, 'n2', 'text', 'later')));
  expect(texts()).toEqual(['later', 'theirs']);
  const before = documentOf(editor.getState());
  take(0);
  expect(documentOf(editor.getState())).toBe(before);
  expect([editor.getState().conflicts, screen.queryByText(/was changed here/)]).toEqual([[], null]);
});

test('what was changed elsewhere is taken in one step', () => {
  const editor = conflicting();
  take(1);
  expect(documentOf(editor.getState()).nodes.n2?.params.text).toBe('theirs');
  expect(screen.queryByText(/was changed here/)).toBeNull();
  act(() => editor.getState().undo());
  expect(documentOf(editor.getState()).nodes.n2?.params.text).toBe('ours');
});

test('nobody is asked about a node that is gone', () => {
  const editor = conflicting();
  const makeId = idsFrom(seeded(3));
  act(
    () => void editor.getState().transact('Deleted', (before) => operations.remove(before, { nodes: ['n2'] }, makeId)),
  );
  expect(screen.queryByText(/was changed here/)).toBeNull();
});
