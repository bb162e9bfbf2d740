// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { ApiError } from '../api/client';
import type { PipelineDocument } from '../model/pipeline/document';
import * as operations from '../model/pipeline/operations';
import { isSameDocument } from '../model/pipeline/order';
import { catalog, line } from '../model/pipeline/testPipelines';
import { localDrafts, mergeCopies } from '../store/drafts';
import { createEditor, documentOf } from '../store/editor';
import { Autosave, DraftMergedError } from './useAutosave';

const ID = 'p';
const USER = 'ada';

interface Sent {
  readonly document: PipelineDocument;
  readonly draft?: string | null;
}

/** One pipeline and one user's draft on a server, with the preconditions of the real one. */
class Server {
  head = { number: 1, document: line() };
  draft: { readonly tag: string; readonly document: PipelineDocument } | null = null;
  /** Requests as they came in. */
  readonly log: string[] = [];
  isAway = false;
  /** How many more requests it answers before it is away. */
  left = Infinity;
  losesAnswers = false;
  private revision = 0;
  private gate: Promise<void> = Promise.resolve();

  /** Keeps requests waiting until the returned function is called. */
  hold(): () => void {
    let open: () => void = () => undefined;
    this.gate = new Promise((resolve) => {
      open = resolve;
    });
    return open;
  }

  write(document: PipelineDocument): void {
    this.revision += 1;
    this.draft = { tag: `1.${this.revision}`, document };
  }

  discard(): void {
    this.draft = null;
  }

  readonly fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const what = `${init.method ?? ''} ${url.split('/').pop() ?? ''}`;
    this.log.push(what);
    await this.gate;
    if (this.isAway || this.left === 0) throw new TypeError('fetch failed');
    this.left -= 1;
    const sent = JSON.parse(init.body as string) as Sent;
    const headers = init.headers as Readonly<Record<string, string>>;
    const answer = what === 'PUT draft' ? this.put(sent, headers) : this.post(sent, headers);
    if (this.losesAnswers) throw new TypeError('fetch failed');
    return answer;
  };

  private put({ document }: Sent, headers: Readonly<Record<string, string>>): Response {
    const seen = headers['If-None-Match'] === '*' ? null : (headers['If-Match'] ?? '').replaceAll('"', '');
    if (seen !== (this.draft?.tag ?? null)) return moved('draft_moved', this.draft);
    this.write(document);
    return Response.json({ tag: this.draft?.tag });
  }

  private post({ document, draft }: Sent, headers: Readonly<Record<string, string>>): Response {
    if (headers['If-Match'] !== `"${this.head.number}"`)
      return moved('head_moved', { ...this.head, author: 'bob', message: '' });
    const isSame = this.draft !== null && isSameDocument(this.draft.document, document);
    const isNamed = draft === (this.draft?.tag ?? null);
    if (draft !== undefined && !isNamed && !isSame) return moved('draft_moved', this.draft);
    if (isNamed || isSame) this.draft = null;
    this.head = { number: this.head.number + 1, document };
    return Response.json(this.head);
  }
}

function moved(code: string, current: unknown): Response {
  return Response.json({ errors: [{ code, message: 'moved' }], current }, { status: 412 });
}

let server: Server;
const original = globalThis.fetch;

beforeEach(() => {
  vi.useFakeTimers();
  localStorage.clear();
  server = new Server();
  globalThis.fetch = server.fetch as typeof fetch;
});

afterEach(() => {
  vi.useRealTimers();
  globalThis.fetch = original;
});

/** An editor in a tab of its own, as the page opens it. */
function opened() {
  const copies = localDrafts(ID, USER);
  const onServer = server.draft?.document ?? server.head.document;
  const { document, conflicts } = mergeCopies(onServer, copies);
  const store = createEditor({ pipelineId: ID, catalog, document, head: server.head, isReadOnly: false });
  store.setState({ conflicts });
  const autosave = new Autosave(store, { tag: server.draft?.tag ?? null, onServer, user: USER, copies });
  const stop = autosave.start();
  return {
    store,
    autosave,
    stop,
    document: () => documentOf(store.getState()),
    edit: (node: string, text: string) => {
      vi.advanceTimersByTime(1);
      store.getState().transact('Edited', (before) => operations.setParam(before, node, 'text', text));
    },
    undo: () => store.getState().undo(),
    conflicts: () => store.getState().conflicts.map(({ ours, theirs }) => [ours, theirs]),
  };
}

/** All tabs are gone without a word. */
function kill(): void {
  vi.clearAllTimers();
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

function texts(document: PipelineDocument | undefined): unknown {
  return Object.values(document?.nodes ?? {}).flatMap(({ params }) => params.text ?? []);
}

test('an edit is on the server a second later', async () => {
  const tab = opened();
  tab.edit('n2', 'a');
  expect(tab.store.getState()).toMatchObject({ saveState: 'pending', isKept: true });
  await pass(1000);
  expect(texts(server.draft?.document)).toEqual(['a']);
  expect(tab.store.getState().saveState).toBe('saved');
  expect(localDrafts(ID, USER)).toEqual([]);
});

// --- saves ----------------------------------------------------------------------------------------------------------

test('a save over a draft that was written elsewhere merges, asks, and loses nothing', async () => {
  server.write(operations.setParam(line(), 'n1', 'text', 'drafted'));
  const here = opened();
  const elsewhere = opened();
  elsewhere.edit('n3', 'elsewhere');
  await pass(1000);
  // nothing was edited here, so no write has shown that the draft is another one
  await expect(here.autosave.save('')).rejects.toThrow(DraftMergedError);
  expect(server.head.number).toBe(1);
  expect(texts(server.draft?.document)).toEqual(['drafted', 'elsewhere']);
  expect(texts(here.document())).toEqual(['drafted', 'elsewhere']);
  expect((await here.autosave.save(''))?.number).toBe(2);
  expect(texts(server.head.document)).toEqual(['drafted', 'elsewhere']);
  expect(server.draft).toBeNull();
});

test('a field that was changed here and in the draft from elsewhere is asked about before anything is saved', async () => {
  const here = opened();
  const elsewhere = opened();
  elsewhere.edit('n2', 'theirs');
  await pass(1000);
  here.edit('n2', 'ours');
  await expect(here.autosave.save('')).rejects.toThrow('The draft was changed elsewhere');
  expect(here.conflicts()).toEqual([['ours', 'theirs']]);
  expect(server.head.number).toBe(1);
});

test('a draft that was begun elsewhere is not taken for none', async () => {
  const here = opened();
  here.edit('n2', 'ours');
  server.write(operations.setParam(line(), 'n3', 'text', 'theirs'));
  await expect(here.autosave.save('')).rejects.toThrow(DraftMergedError);
  await here.autosave.save('');
  expect(texts(server.head.document)).toEqual(['ours', 'theirs']);
});

test('a draft that is gone, or that has nothing new, is no reason to ask', async () => {
  server.write(operations.setParam(line(), 'n1', 'text', 'drafted'));
  const tab = opened();
  server.discard();
  expect((await tab.autosave.save(''))?.number).toBe(2);
  tab.edit('n2', 'a');
  await pass(1000);
  tab.edit('n3', 'b');
  server.write(server.draft?.document ?? line());
  expect((await tab.autosave.save(''))?.number).toBe(3);
  expect(texts(server.head.document)).toEqual(['drafted', 'a', 'b']);
});

test('what was in a draft that is gone is written again', async () => {
  server.write(operations.setParam(line(), 'n1', 'text', 'drafted'));
  const tab = opened();
  server.discard();
  server.left = 1;
  await expect(tab.autosave.save('')).rejects.toThrow('cannot be reached');
  expect(localDrafts(ID, USER)).toHaveLength(1);
  server.left = Infinity;
  await pass(1000);
  expect(texts(server.draft?.document)).toEqual(['drafted']);
});

test('what is edited while a save is under way is written afterwards', async () => {
  const tab = opened();
  tab.edit('n2', 'a');
  const open = server.hold();
  const saving = tab.autosave.save('');
  await pass(0);
  tab.edit('n3', 'b');
  await pass(10_000);
  expect(server.log).toEqual(['POST versions']);
  expect(tab.store.getState()).toMatchObject({ saveState: 'pending', isKept: true });
  open();
  await saving;
  expect(texts(server.head.document)).toEqual(['a']);
  await pass(1000);
  expect(texts(server.draft?.document)).toEqual(['a', 'b']);
  expect(server.log).toEqual(['POST versions', 'PUT draft']);
});

test('a page that is hidden while it saves begins no draft of what is saved', async () => {
  const tab = opened();
  tab.edit('n2', 'a');
  const open = server.hold();
  const saving = tab.autosave.save('');
  await pass(0);
  await tab.autosave.write(true);
  open();
  await saving;
  await pass(10_000);
  expect(server.log).toEqual(['POST versions']);
  expect(server.draft).toBeNull();
});

test('a save that fails does not end the attempts to write', async () => {
  const tab = opened();
  server.isAway = true;
  tab.edit('n2', 'a');
  await pass(1000);
  expect(tab.store.getState().saveState).toBe('failed');
  await pass(2000);
  await expect(tab.autosave.save('')).rejects.toThrow(ApiError);
  server.isAway = false;
  await pass(3000);
  expect(texts(server.draft?.document)).toEqual(['a']);
  expect(tab.store.getState().saveState).toBe('saved');
});

test('a save that fails before the first write does not keep it from being tried', async () => {
  const tab = opened();
  server.isAway = true;
  tab.edit('n2', 'a');
  await expect(tab.autosave.save('')).rejects.toThrow('cannot be reached');
  server.isAway = false;
  await pass(1000);
  expect(texts(server.draft?.document)).toEqual(['a']);
});

test('a write whose answer was lost is not taken for that of somebody else', async () => {
  const tab = opened();
  server.losesAnswers = true;
  tab.edit('n2', 'a');
  await pass(1000);
  server.losesAnswers = false;
  tab.edit('n2', 'b');
  expect((await tab.autosave.save(''))?.number).toBe(2);
  expect(tab.conflicts()).toEqual([]);
  expect(texts(server.head.document)).toEqual(['b']);
  server.losesAnswers = true;
  tab.edit('n2', 'c');
  await pass(1000);
  server.losesAnswers = false;
  tab.edit('n2', 'd');
  await pass(1100);
  expect(tab.conflicts()).toEqual([]);
  expect(texts(server.draft?.document)).toEqual(['d']);
});

test('a version of somebody else is merged before the next one is made', async () => {
  const tab = opened();
  tab.edit('n2', 'ours');
  await pass(1000);
  server.head = { number: 2, document: operations.setParam(line(), 'n3', 'text', 'theirs') };
  expect(await tab.autosave.save('')).toBeNull();
  expect((await tab.autosave.save(''))?.number).toBe(3);
  expect(texts(server.head.document)).toEqual(['ours', 'theirs']);
});

// --- the browser's copies -------------------------------------------------------------------------------------------

test('what two tabs had when they were killed is merged when the pipeline is opened again', async () => {
  const [one, other] = [opened(), opened()];
  server.isAway = true;
  one.edit('n2', 'one');
  other.edit('n3', 'other');
  await pass(1000);
  kill();
  const again = opened();
  expect(texts(again.document())).toEqual(['one', 'other']);
  // what they had is in one copy now, and on the server as soon as that is there
  expect(localDrafts(ID, USER)).toHaveLength(1);
  server.isAway = false;
  await pass(1000);
  expect(texts(server.draft?.document)).toEqual(['one', 'other']);
  expect(localDrafts(ID, USER)).toEqual([]);
  kill();
  expect(opened().conflicts()).toEqual([]);
});

test('a tab that has written its work leaves the copy of another one', async () => {
  const [one, other] = [opened(), opened()];
  server.isAway = true;
  one.edit('n2', 'one');
  await pass(1000);
  other.edit('n3', 'other');
  server.isAway = false;
  await other.autosave.write();
  kill();
  expect(localDrafts(ID, USER).map(({ document }) => texts(document))).toEqual([['one']]);
  expect(texts(opened().document())).toEqual(['one', 'other']);
});

test('a tab that is still there keeps its copy again when another one has taken it away', async () => {
  const one = opened();
  server.isAway = true;
  one.edit('n2', 'one');
  const [copy] = localDrafts(ID, USER);
  opened();
  expect(localDrafts(ID, USER).map(({ key }) => key)).not.toContain(copy?.key);
  window.dispatchEvent(new StorageEvent('storage', { key: copy?.key ?? '', newValue: null }));
  expect(localDrafts(ID, USER).map(({ key }) => key)).toContain(copy?.key);
  server.isAway = false;
  await pass(10_000);
  expect(localDrafts(ID, USER)).toEqual([]);
  expect(one.conflicts()).toEqual([]);
});

test('what copies differ in is kept until it is decided', async () => {
  const [one, other] = [opened(), opened()];
  server.isAway = true;
  one.edit('n2', 'one');
  other.edit('n2', 'other');
  await pass(1000);
  kill();
  server.isAway = false;
  const again = opened();
  expect(again.conflicts()).toEqual([['other', 'one']]);
  await pass(1000);
  // on the server there is one of both
  expect(localDrafts(ID, USER)).toHaveLength(1);
  kill();
  const decided = opened();
  expect(decided.conflicts()).toEqual([['other', 'one']]);
  decided.store.setState({ conflicts: [] });
  expect(localDrafts(ID, USER)).toEqual([]);
});

test('a tab that is killed while a field is asked about asks again, be it about a draft or a version', async () => {
  const here = opened();
  const elsewhere = opened();
  elsewhere.edit('n2', 'theirs');
  await pass(1000);
  here.edit('n2', 'ours');
  await pass(2000);
  expect(here.conflicts()).toEqual([['ours', 'theirs']]);
  // the draft from elsewhere is written over
  expect(texts(server.draft?.document)).toEqual(['ours']);
  kill();
  const again = opened();
  expect(again.conflicts()).toEqual([['ours', 'theirs']]);
  server.head = { number: 2, document: operations.setParam(line(), 'n3', 'text', 'of bob') };
  again.edit('n3', 'of ada');
  expect(await again.autosave.save('')).toBeNull();
  await pass(2000);
  kill();
  const third = opened();
  expect(third.conflicts()).toEqual([
    ['ours', 'theirs'],
    ['of ada', 'of bob'],
  ]);
  // what is not decided by then is asked about behind the save, too
  await third.autosave.save('');
  kill();
  expect(opened().conflicts()).toHaveLength(2);
});

test('a copy that the server has all of goes at once', async () => {
  const tab = opened();
  server.losesAnswers = true;
  tab.edit('n2', 'a');
  await pass(1000);
  kill();
  expect(localDrafts(ID, USER)).toHaveLength(1);
  opened();
  expect(localDrafts(ID, USER)).toEqual([]);
});

test('a copy begins with what the server has, so that its own work is not asked about', async () => {
  const tab = opened();
  tab.edit('n2', 'a');
  const open = server.hold();
  await pass(1000);
  tab.edit('n2', 'b');
  open();
  await pass(0);
  server.isAway = true;
  kill();
  const again = opened();
  expect(texts(again.document())).toEqual(['b']);
  expect(again.conflicts()).toEqual([]);
});

test('a reader, which cannot merge, writes over nothing', async () => {
  const tab = opened();
  tab.edit('n2', 'here');
  tab.store.setState({ isReadOnly: true });
  server.write(operations.setParam(line(), 'n3', 'text', 'elsewhere'));
  await pass(10_000);
  expect(texts(server.draft?.document)).toEqual(['elsewhere']);
  expect(texts(opened().document())).toEqual(['here', 'elsewhere']);
});

test('what is too large for the browser is not said to be kept, and no older copy stays', async () => {
  const tab = opened();
  server.isAway = true;
  tab.edit('n2', 'a');
  expect(tab.store.getState().isKept).toBe(true);
  tab.edit('n2', 'x'.repeat(3 << 20));
  expect(tab.store.getState().isKept).toBe(false);
  expect(localDrafts(ID, USER)).toEqual([]);
  await pass(1000);
  expect(tab.store.getState()).toMatchObject({ saveState: 'failed', isKept: false });
  tab.undo();
  expect(tab.store.getState().isKept).toBe(true);
});
