/**
 * Keeps unsaved work: in this browser with every edit, in the same turn, and on the server a second later.
 *
 * If the server's draft was written elsewhere meanwhile, both are merged field by field; fields that both have changed
 * are put to the user, and the work goes on. Save makes a version of it.
 */

import { useEffect, useMemo } from 'react';

import { ApiError } from '../api/client';
import { type Draft, OutdatedError, type Version, putDraft, saveVersion } from '../api/pipelines';
import type { PipelineDocument } from '../model/pipeline/document';
import { mergeDocuments } from '../model/pipeline/merge';
import { isSameDocument } from '../model/pipeline/order';
import { dropLocalDraft, keepLocalDraft } from '../store/drafts';
import { type EditorStore, documentOf, makeId } from '../store/editor';

const PAUSE_MS = 1000;
const RETRY_MS = 5000;

export interface Begun {
  /** ETag of the server's draft; null: there is none. */
  readonly tag: string | null;
  /** What the server has: its draft, or the head. */
  readonly onServer: PipelineDocument;
  readonly user: string;
}

/** Writes one pipeline's work, one request at a time. */
export class Autosave {
  private tag: string | null;
  private onServer: PipelineDocument;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private running: Promise<void> | null = null;
  private readonly user: string;

  constructor(
    private readonly store: EditorStore,
    { tag, onServer, user }: Begun,
  ) {
    this.tag = tag;
    this.onServer = onServer;
    this.user = user;
  }

  start(): () => void {
    const unsubscribe = this.store.subscribe((state, before) => {
      if (documentOf(state) !== documentOf(before)) this.changed();
    });
    const onHide = () => {
      if (document.visibilityState === 'hidden' && this.isDirty()) void this.write(true);
    };
    document.addEventListener('visibilitychange', onHide);
    if (this.isDirty()) this.changed();
    return () => {
      unsubscribe();
      document.removeEventListener('visibilitychange', onHide);
      clearTimeout(this.timer);
      if (this.isDirty()) void this.write(true);
    };
  }

  private present(): PipelineDocument {
    return documentOf(this.store.getState());
  }

  private isDirty(): boolean {
    return !isSameDocument(this.present(), this.onServer);
  }

  private changed(): void {
    const { pipelineId, head } = this.store.getState();
    const kept = { document: this.present(), base: this.onServer, version: head.number, user: this.user };
    const isKept = keepLocalDraft(pipelineId, kept);
    this.store.setState({
      saveState: 'pending',
      ...(isKept ? {} : { saveError: 'No local copy could be kept in this browser.' }),
    });
    this.later(PAUSE_MS);
  }

  private later(ms: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.write(), ms);
  }

  /** Writes the draft, after a write that is under way. */
  async write(isLeaving = false): Promise<void> {
    while (this.running !== null && !isLeaving) await this.running;
    clearTimeout(this.timer);
    if (!this.isDirty()) {
      this.done();
      return;
    }
    this.running = this.put(isLeaving).finally(() => {
      this.running = null;
    });
    await this.running;
  }

  private async put(isLeaving: boolean): Promise<void> {
    const { pipelineId, head } = this.store.getState();
    const document = this.present();
    this.store.setState({ saveState: 'saving' });
    try {
      const { tag } = await putDraft(pipelineId, document, head.number, this.tag, isLeaving);
      this.tag = tag;
      this.onServer = document;
      this.done();
    } catch (error) {
      if (error instanceof OutdatedError) this.outdated(error.current as Draft | null);
      else {
        this.store.setState({ saveState: 'failed', saveError: messageOf(error) });
        this.later(RETRY_MS);
      }
    }
  }

  /** Somebody else has written the draft: another tab of the user, or another browser. */
  private outdated(draft: Draft | null): void {
    if (draft === null) {
      // it has become a version elsewhere, or was thrown away: the next write begins another one
      this.tag = null;
    } else {
      this.merge('Merged with the draft from elsewhere', this.onServer, draft.document);
      this.tag = draft.tag;
      this.onServer = draft.document;
    }
    this.later(0);
  }

  private merge(label: string, base: PipelineDocument, theirs: PipelineDocument): void {
    const { transact } = this.store.getState();
    const { document, conflicts } = mergeDocuments(base, this.present(), theirs);
    transact(label, () => document);
    this.store.setState((state) => ({ conflicts: [...state.conflicts, ...conflicts] }));
  }

  private done(): void {
    const { pipelineId } = this.store.getState();
    if (this.isDirty()) {
      this.later(PAUSE_MS);
      return;
    }
    dropLocalDraft(pipelineId);
    this.store.setState({ saveState: 'saved', saveError: null, savedAt: Date.now() });
  }

  /** Makes a version of the document. Returns null if somebody else has made one meanwhile: then both are merged. */
  async save(message: string): Promise<Version | null> {
    while (this.running !== null) await this.running;
    clearTimeout(this.timer);
    const { pipelineId, head } = this.store.getState();
    const document = this.present();
    try {
      const version = await saveVersion(pipelineId, document, head.number, message, makeId());
      this.tag = null;
      this.onServer = version.document;
      this.store.setState({ head: { number: version.number, document } });
      this.onServer = document;
      this.done();
      return version;
    } catch (error) {
      if (!(error instanceof OutdatedError) || error.current === null) throw error;
      const current = error.current as Version;
      this.merge(
        `Merged with version ${current.number} by ${current.author ?? 'somebody'}`,
        head.document,
        current.document,
      );
      this.store.setState({ head: { number: current.number, document: current.document } });
      return null;
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof ApiError ? error.message : 'The draft could not be written.';
}

export function useAutosave(store: EditorStore, begun: Begun, isReadOnly: boolean): Autosave {
  const autosave = useMemo(() => new Autosave(store, begun), [store, begun]);
  useEffect(() => (isReadOnly ? undefined : autosave.start()), [autosave, isReadOnly]);
  return autosave;
}
