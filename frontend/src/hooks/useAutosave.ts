/**
 * Keeps unsaved work: in this browser with every edit, in the same turn, and on the server a second later.
 *
 * If the server's draft was written elsewhere meanwhile, both are merged field by field; fields that both have changed
 * are put to the user, and the work goes on. Save makes a version of it, and of nothing that the user has not seen.
 */

import { useEffect, useMemo } from 'react';

import { ApiError } from '../api/client';
import { type Draft, OutdatedError, type Version, putDraft, saveVersion } from '../api/pipelines';
import type { PipelineDocument } from '../model/pipeline/document';
import { type Conflict, mergeDocuments, openConflicts } from '../model/pipeline/merge';
import { isSameDocument } from '../model/pipeline/order';
import { type LocalCopy, dropCopy, dropLocalDraft, keepLocalDraft, onDropped } from '../store/drafts';
import { type EditorStore, documentOf, makeId } from '../store/editor';
import { t } from '../texts/t';

const PAUSE_MS = 1000;
const RETRY_MS = 5000;
/** Of writes without an answer that may have reached the server. */
const MAX_UNANSWERED = 3;

export interface Begun {
  /** ETag of the server's draft; null: there is none. */
  readonly tag: string | null;
  /** What the server has: its draft, or the head. */
  readonly onServer: PipelineDocument;
  readonly user: string;
  /** What this browser had kept; it is part of the document that was opened. */
  readonly copies: readonly LocalCopy[];
}

/** The draft was written elsewhere; both are merged, and nothing is saved until the user has seen it. */
export class DraftMergedError extends Error {
  constructor() {
    super(t('The draft was changed elsewhere; both were merged. Review the result and save again.'));
    this.name = 'DraftMergedError';
  }
}

/** Writes one pipeline's work, one request at a time. */
export class Autosave {
  /** Names the copy in this browser. Never that of another tab, not even of one that was duplicated. */
  private readonly id = makeId();
  private tag: string | null;
  private onServer: PipelineDocument;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** Ends with the write or the save that is under way. */
  private running: Promise<void> | null = null;
  private unanswered: readonly PipelineDocument[] = [];
  /** What is becoming a version. */
  private saving: PipelineDocument | null = null;
  private copies: readonly LocalCopy[];
  private readonly user: string;

  constructor(
    private readonly store: EditorStore,
    { tag, onServer, user, copies }: Begun,
  ) {
    this.tag = tag;
    this.onServer = onServer;
    this.user = user;
    this.copies = copies;
  }

  start(): () => void {
    const { pipelineId } = this.store.getState();
    const unsubscribe = this.store.subscribe((state, before) => {
      if (documentOf(state) !== documentOf(before)) this.changed();
      else if (state.conflicts !== before.conflicts) this.settle();
    });
    const onHide = () => {
      if (document.visibilityState === 'hidden' && this.isDirty()) void this.write(true);
    };
    document.addEventListener('visibilitychange', onHide);
    const unwatch = onDropped(pipelineId, this.id, () => {
      if (this.isDirty() || this.undecided().length > 0) this.keep();
    });
    if (this.isDirty()) this.changed();
    else this.settle();
    return () => {
      unsubscribe();
      document.removeEventListener('visibilitychange', onHide);
      unwatch();
      clearTimeout(this.timer);
      if (this.isDirty()) void this.write(true);
    };
  }

  private present(): PipelineDocument {
    return documentOf(this.store.getState());
  }

  /** Whether the server has neither a draft nor a version that is what is drawn. */
  private isDirty(): boolean {
    // a draft that is gone has nothing any more
    const onServer = this.tag === null ? this.store.getState().head.document : this.onServer;
    return !isSameDocument(this.present(), onServer);
  }

  private changed(): void {
    this.keep();
    this.store.setState({ saveState: 'pending' });
    this.later(PAUSE_MS);
  }

  private keep(): void {
    const { pipelineId, head } = this.store.getState();
    const conflicts = this.undecided();
    const kept = { document: this.present(), base: this.onServer, version: head.number, user: this.user, conflicts };
    const isKept = keepLocalDraft(pipelineId, this.id, kept);
    if (isKept) this.dropCopies();
    this.store.setState({ isKept });
  }

  /** The fields that both sides have changed, and of which only this editor knows what the other side has. */
  private undecided(): readonly Conflict[] {
    return openConflicts(this.present(), this.store.getState().conflicts);
  }

  /** Keeps in this browser what the server does not have: work, or what is still to be decided. */
  private settle(): void {
    if (this.isDirty() || this.undecided().length > 0) {
      this.keep();
      return;
    }
    dropLocalDraft(this.store.getState().pipelineId, this.id);
    this.dropCopies();
  }

  /** Takes away what the document has come from. */
  private dropCopies(): void {
    this.copies.forEach(dropCopy);
    this.copies = [];
  }

  private later(ms: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.write(), ms);
  }

  private async inTurn<T>(act: () => Promise<T>): Promise<T> {
    while (this.running !== null) await this.running;
    let end: () => void = () => undefined;
    this.running = new Promise<void>((resolve) => {
      end = resolve;
    });
    try {
      return await act();
    } finally {
      this.running = null;
      end();
    }
  }

  /** Writes the draft, after a write or a save that is under way. A page that goes away cannot wait for these. */
  async write(isLeaving = false): Promise<void> {
    if (isLeaving) await this.put(true);
    else await this.inTurn(() => this.put(false));
  }

  private async put(isLeaving: boolean): Promise<void> {
    // a save has it: beside the version there would be a draft that is the same
    if (this.present() === this.saving) return;
    clearTimeout(this.timer);
    if (!this.isDirty()) {
      this.done();
      return;
    }
    const { pipelineId, head } = this.store.getState();
    const document = this.present();
    this.store.setState({ saveState: 'saving' });
    this.unanswered = [...this.unanswered, document].slice(-MAX_UNANSWERED);
    try {
      const { tag } = await putDraft(pipelineId, document, head.number, this.tag, isLeaving);
      this.answered(document);
      this.tag = tag;
      this.onServer = document;
      this.done();
    } catch (error) {
      if (error instanceof OutdatedError) {
        this.answered(document);
        // narrowed to a reader meanwhile, which cannot merge: the copy is merged when the editor is back
        if (this.store.getState().isReadOnly) return;
        this.take(error.current as Draft | null);
        this.later(0);
      } else {
        this.store.setState({ saveState: 'failed', saveError: messageOf(error) });
        this.later(RETRY_MS);
      }
    }
  }

  private answered(document: PipelineDocument): void {
    this.unanswered = this.unanswered.filter((each) => each !== document);
  }

  /**
   * Takes the server's draft for what it is: another tab of the user, or another browser, has written it. Null: it has
   * become a version elsewhere, or was thrown away; the next write begins another one. Returns whether the user should
   * look at what has become of the document.
   */
  private take(draft: Draft | null): boolean {
    let isNew = false;
    if (draft !== null) {
      const isOwn = this.unanswered.some((each) => isSameDocument(each, draft.document));
      isNew = !isOwn && this.merge(t('Merged with the draft from elsewhere'), this.onServer, draft.document);
      this.onServer = draft.document;
    }
    this.tag = draft?.tag ?? null;
    // again, with what the server has now as its base
    if (this.isDirty()) this.changed();
    return isNew;
  }

  private merge(label: string, base: PipelineDocument, theirs: PipelineDocument): boolean {
    const { transact } = this.store.getState();
    const before = this.present();
    const { document, conflicts } = mergeDocuments(base, before, theirs);
    const isNew = !isSameDocument(document, before);
    if (isNew) transact(label, () => document);
    if (conflicts.length > 0) this.store.setState((state) => ({ conflicts: [...state.conflicts, ...conflicts] }));
    return isNew || conflicts.length > 0;
  }

  private done(): void {
    if (this.isDirty()) {
      // edited meanwhile
      this.keep();
      this.later(PAUSE_MS);
      return;
    }
    clearTimeout(this.timer);
    this.settle();
    this.store.setState({ saveState: 'saved', saveError: null, savedAt: Date.now() });
  }

  /**
   * Makes a version of the document, and ends the draft that it has come from. No write begins meanwhile; what is
   * edited meanwhile is written afterwards, and so is what could not be saved.
   *
   * Returns null if somebody else has made a version meanwhile: then both are merged. Throws DraftMergedError if the
   * draft was written elsewhere, and ApiError.
   */
  async save(message: string): Promise<Version | null> {
    return this.inTurn(() => this.post(message));
  }

  private async post(message: string): Promise<Version | null> {
    const { pipelineId, head } = this.store.getState();
    const document = this.present();
    const draft = this.tag;
    this.saving = document;
    try {
      const version = await saveVersion(pipelineId, document, { head: head.number, draft, message, key: makeId() });
      // a page that seemed to go away may have begun another draft meanwhile
      if (this.tag === draft || this.tag === null) {
        this.tag = null;
        this.onServer = document;
      }
      this.store.setState({ head: { number: version.number, document } });
      this.done();
      return version;
    } catch (error) {
      if (!(error instanceof OutdatedError)) throw error;
      if (error.code === 'draft_moved') {
        const current = error.current as Draft | null;
        if ((current?.tag ?? null) === draft) throw error;
        if (this.take(current)) throw new DraftMergedError();
        // gone, or nothing that is not drawn here
        return await this.post(message);
      }
      if (error.current === null) throw error;
      const current = error.current as Version;
      this.merge(
        t('Merged with version {number} by {author}', {
          number: current.number,
          author: current.author ?? t('somebody'),
        }),
        head.document,
        current.document,
      );
      this.store.setState({ head: { number: current.number, document: current.document } });
      return null;
    } finally {
      this.saving = null;
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof ApiError ? error.message : t('The draft could not be written.');
}

export function useAutosave(store: EditorStore, begun: Begun, isReadOnly: boolean): Autosave {
  const autosave = useMemo(() => new Autosave(store, begun), [store, begun]);
  useEffect(() => (isReadOnly ? undefined : autosave.start()), [autosave, isReadOnly]);
  return autosave;
}
