/**
 * Unsaved work in this browser: every edit is written at once, so that a tab that is killed loses nothing.
 *
 * The server's draft comes a second later; what is here wins where it is newer than what the server had seen. Every
 * editor that is open has a copy of its own: tabs neither overwrite nor drop the work of others. Whoever opens the
 * pipeline merges all copies, and takes those away that it has come from once that is kept or written.
 */

import type { PipelineDocument } from '../model/pipeline/document';
import { type Conflict, type Merge, mergeDocuments } from '../model/pipeline/merge';

export interface LocalDraft {
  readonly document: PipelineDocument;
  /** The document that both this one and the server's began with: the base of a merge. */
  readonly base: PipelineDocument;
  /** Number of the version that the work began with. */
  readonly version: number;
  readonly user: string;
  /** What is still to be decided: only here is what the other side has. Earlier releases kept none. */
  readonly conflicts?: readonly Conflict[];
}

/** A copy as it was read. */
export interface LocalCopy extends LocalDraft {
  readonly key: string;
  readonly text: string;
  /** Epoch ms; 0: written by an earlier release. */
  readonly keptAt: number;
}

/** Browsers keep 5 MiB of one site; more than this of one draft would crowd out others. */
const MAX_CHARS = 2 << 20;

/** Earlier releases had one copy of a pipeline, under this key alone. */
function prefixOf(pipelineId: string): string {
  return `tidemark.draft.${pipelineId}`;
}

function keyOf(pipelineId: string, editorId: string): string {
  return `${prefixOf(pipelineId)}.${editorId}`;
}

/**
 * Returns whether it was kept: storage may be full, blocked, or the document too large. Then no older copy of this
 * editor stays either: it would bring back what has been changed since.
 */
export function keepLocalDraft(pipelineId: string, editorId: string, draft: LocalDraft): boolean {
  try {
    const text = JSON.stringify({ ...draft, keptAt: Date.now() });
    if (text.length <= MAX_CHARS) {
      localStorage.setItem(keyOf(pipelineId, editorId), text);
      return true;
    }
  } catch {
    // full, or blocked
  }
  dropLocalDraft(pipelineId, editorId);
  return false;
}

/** The user's own work of all editors, those that are open and those that are gone; the oldest first. */
export function localDrafts(pipelineId: string, user: string): readonly LocalCopy[] {
  try {
    const prefix = prefixOf(pipelineId);
    const keys = Array.from({ length: localStorage.length }, (_, index) => localStorage.key(index) ?? '');
    return keys
      .filter((key) => key === prefix || key.startsWith(`${prefix}.`))
      .flatMap((key) => copyOf(key, user) ?? [])
      .sort((one, other) => one.keptAt - other.keptAt);
  } catch {
    return [];
  }
}

function copyOf(key: string, user: string): LocalCopy | null {
  const text = localStorage.getItem(key) ?? 'null';
  try {
    const draft = JSON.parse(text) as (LocalDraft & { readonly keptAt?: number }) | null;
    const isMine = draft?.user === user && isDocument(draft.document) && isDocument(draft.base);
    return isMine ? { ...draft, keptAt: draft.keptAt ?? 0, key, text } : null;
  } catch {
    return null;
  }
}

function isDocument(value: { readonly nodes?: unknown } | undefined): boolean {
  return typeof value?.nodes === 'object';
}

/** The server's document with all that copies have changed in theirs; the newest of them wins. */
export function mergeCopies(onServer: PipelineDocument, copies: readonly LocalCopy[]): Merge {
  return copies.reduce<Merge>(
    (merged, { base, document, conflicts = [] }) => {
      const next = mergeDocuments(base, document, merged.document);
      return { document: next.document, conflicts: [...merged.conflicts, ...conflicts, ...next.conflicts] };
    },
    { document: onServer, conflicts: [] },
  );
}

export function dropLocalDraft(pipelineId: string, editorId: string): void {
  drop(keyOf(pipelineId, editorId));
}

/** Takes a copy away that is part of another one now. One that was written again since it was read stays. */
export function dropCopy({ key, text }: LocalCopy): void {
  try {
    if (localStorage.getItem(key) === text) localStorage.removeItem(key);
  } catch {
    // then there is none
  }
}

/** Calls back when another tab has taken this editor's copy away: it cannot know which tabs are still there. */
export function onDropped(pipelineId: string, editorId: string, act: () => void): () => void {
  const onStorage = ({ key, newValue }: StorageEvent) => {
    if (key === keyOf(pipelineId, editorId) && newValue === null) act();
  };
  window.addEventListener('storage', onStorage);
  return () => window.removeEventListener('storage', onStorage);
}

function drop(key: string): void {
  try {
    localStorage.removeItem(key);
  } catch {
    // then there is none
  }
}
