/**
 * Unsaved work in this browser: every edit is written at once, so that a tab that is killed loses nothing.
 *
 * The server's draft comes a second later; what is here wins where it is newer than what the server had seen.
 */

import type { PipelineDocument } from '../model/pipeline/document';

export interface LocalDraft {
  readonly document: PipelineDocument;
  /** The document that both this one and the server's began with: the base of a merge. */
  readonly base: PipelineDocument;
  /** Number of the version that the work began with. */
  readonly version: number;
  readonly user: string;
}

/** Browsers keep 5 MiB of one site; more than this of one draft would crowd out others. */
const MAX_CHARS = 2 << 20;

function keyOf(pipelineId: string): string {
  return `tidemark.draft.${pipelineId}`;
}

/** Returns whether it was kept: storage may be full, blocked, or the document too large. */
export function keepLocalDraft(pipelineId: string, draft: LocalDraft): boolean {
  try {
    const text = JSON.stringify(draft);
    if (text.length > MAX_CHARS) return false;
    localStorage.setItem(keyOf(pipelineId), text);
    return true;
  } catch {
    return false;
  }
}

/** The user's own work; null if there is none. */
export function localDraft(pipelineId: string, user: string): LocalDraft | null {
  try {
    const draft = JSON.parse(localStorage.getItem(keyOf(pipelineId)) ?? 'null') as LocalDraft | null;
    return draft !== null && draft.user === user && typeof draft.document.nodes === 'object' ? draft : null;
  } catch {
    return null;
  }
}

export function dropLocalDraft(pipelineId: string): void {
  try {
    localStorage.removeItem(keyOf(pipelineId));
  } catch {
    // then there is none
  }
}
