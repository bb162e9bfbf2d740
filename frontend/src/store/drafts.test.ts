// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import * as operations from '../model/pipeline/operations';
import { line } from '../model/pipeline/testPipelines';
import { dropCopy, dropLocalDraft, keepLocalDraft, localDrafts, mergeCopies, onDropped } from './drafts';

beforeEach(() => {
  vi.useFakeTimers();
  localStorage.clear();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function edited(node: string, text: string, document = line()) {
  return operations.setParam(document, node, 'text', text);
}

/** Keeps a copy as an editor does, a moment after the one before. */
function keep(editor: string, document = line(), { pipeline = 'p', user = 'ada' } = {}): boolean {
  vi.advanceTimersByTime(1);
  return keepLocalDraft(pipeline, editor, { document, base: line(), version: 1, user });
}

test('editors neither overwrite nor drop the copy of another one', () => {
  keep('a', edited('n2', 'first'));
  keep('b', edited('n3', 'second'));
  keep('a', edited('n2', 'third'));
  dropLocalDraft('p', 'b');
  expect(localDrafts('p', 'ada').map(({ document }) => document)).toEqual([edited('n2', 'third')]);
});

test('only copies of the user and of the pipeline are read', () => {
  keep('a', line(), { user: 'bob' });
  keep('b', line(), { pipeline: 'p2' });
  keep('c', edited('n2', 'mine'));
  localStorage.setItem('tidemark.draft.p.x', 'no JSON');
  localStorage.setItem('tidemark.draft.p.y', '{"user": "ada"}');
  localStorage.setItem('tidemark.draft.p.z', '7');
  expect(localDrafts('p', 'ada').map(({ key }) => key)).toEqual(['tidemark.draft.p.c']);
});

test('the copy of an earlier release is read, as the oldest one', () => {
  keep('a');
  localStorage.setItem('tidemark.draft.p', JSON.stringify({ document: line(), base: line(), version: 1, user: 'ada' }));
  expect(localDrafts('p', 'ada').map(({ key }) => key)).toEqual(['tidemark.draft.p', 'tidemark.draft.p.a']);
});

test('all copies are merged; of one field that two have changed, the newer one holds until somebody decides', () => {
  keep('a', edited('n2', 'old'));
  keep('b', edited('n3', 'other', edited('n2', 'new')));
  const onServer = edited('n1', 'on the server');
  const { document, conflicts } = mergeCopies(onServer, localDrafts('p', 'ada'));
  expect(document).toEqual(edited('n3', 'other', edited('n2', 'new', onServer)));
  expect(conflicts.map(({ ours, theirs }) => [ours, theirs])).toEqual([['new', 'old']]);
  expect(mergeCopies(onServer, [])).toEqual({ document: onServer, conflicts: [] });
});

test('what is too large is not kept, and no older copy of it stays', () => {
  expect(keep('a', edited('n2', 'small'))).toBe(true);
  keep('b');
  expect(keep('a', edited('n2', 'x'.repeat(3 << 20)))).toBe(false);
  expect(localDrafts('p', 'ada').map(({ key }) => key)).toEqual(['tidemark.draft.p.b']);
});

test('nothing is kept where storage is full, and no older copy stays', () => {
  keep('a', edited('n2', 'small'));
  const storage = localStorage;
  vi.stubGlobal('localStorage', {
    setItem: () => {
      throw new DOMException('full', 'QuotaExceededError');
    },
    removeItem: (key: string) => storage.removeItem(key),
  });
  expect(keep('a', edited('n2', 'more'))).toBe(false);
  vi.unstubAllGlobals();
  expect(localDrafts('p', 'ada')).toEqual([]);
});

test('a copy that was written again since it was read is not taken away', () => {
  keep('a', edited('n2', 'read'));
  const copies = localDrafts('p', 'ada');
  keep('a', edited('n2', 'since'));
  copies.forEach(dropCopy);
  expect(localDrafts('p', 'ada')).toHaveLength(1);
  localDrafts('p', 'ada').forEach(dropCopy);
  expect(localDrafts('p', 'ada')).toEqual([]);
});

test('an editor learns that another tab has taken its copy away', () => {
  const act = vi.fn();
  const stop = onDropped('p', 'a', act);
  const happens = (key: string, newValue: string | null) =>
    window.dispatchEvent(new StorageEvent('storage', { key, newValue }));
  happens('tidemark.draft.p.b', null);
  happens('tidemark.draft.p.a', '{}');
  expect(act).not.toHaveBeenCalled();
  happens('tidemark.draft.p.a', null);
  stop();
  happens('tidemark.draft.p.a', null);
  expect(act).toHaveBeenCalledOnce();
});
