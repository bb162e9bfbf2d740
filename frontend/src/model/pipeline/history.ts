/**
 * Undo and redo over whole documents. An entry keeps the documents before and after, so that no inverse can be wrong.
 *
 * Entries with one merge key that follow each other within a second become one: typing into a field is one step. Saving,
 * autosaving and previews leave the history alone; a merge with somebody else's work is an entry like any other.
 */

export interface Entry<D, S> {
  readonly label: string;
  readonly mergeKey: string | null;
  readonly before: D;
  readonly after: D;
  readonly selectionBefore: S;
  readonly selectionAfter: S;
  readonly at: number;
}

export interface History<D, S> {
  readonly present: D;
  readonly selection: S;
  readonly entries: readonly Entry<D, S>[];
  /** Entries from this one on are undone. */
  readonly done: number;
  /** Where the next entry must not merge into the last one. */
  readonly isSealed: boolean;
}

export interface Change<D, S> {
  readonly label: string;
  readonly document: D;
  readonly selection: S;
  /** Null: never merged. */
  readonly mergeKey?: string | null;
  /** Milliseconds. */
  readonly now: number;
}

/** More would keep too much of large documents alive; fewer would disappoint. */
export const MAX_ENTRIES = 200;
export const MERGE_MS = 1000;

export function startHistory<D, S>(present: D, selection: S): History<D, S> {
  return { present, selection, entries: [], done: 0, isSealed: true };
}

/** Adds an entry; what was undone is gone. A document that is the same one adds none. */
export function record<D, S>(history: History<D, S>, change: Change<D, S>): History<D, S> {
  const { label, document, selection, mergeKey = null, now } = change;
  if (document === history.present) return { ...history, selection };
  const kept = history.entries.slice(0, history.done);
  const last = kept.at(-1);
  const merges =
    last !== undefined &&
    !history.isSealed &&
    history.done === history.entries.length &&
    mergeKey !== null &&
    last.mergeKey === mergeKey &&
    now - last.at <= MERGE_MS;
  const entry: Entry<D, S> = {
    label,
    mergeKey,
    before: merges ? last.before : history.present,
    after: document,
    selectionBefore: merges ? last.selectionBefore : history.selection,
    selectionAfter: selection,
    at: now,
  };
  const entries = [...(merges ? kept.slice(0, -1) : kept), entry].slice(-MAX_ENTRIES);
  return { present: document, selection, entries, done: entries.length, isSealed: false };
}

/** The next entry stands for itself: a field lost the focus, a drag ended. */
export function seal<D, S>(history: History<D, S>): History<D, S> {
  return history.isSealed ? history : { ...history, isSealed: true };
}

export function undo<D, S>(history: History<D, S>): History<D, S> {
  const entry = history.entries[history.done - 1];
  if (entry === undefined) return history;
  const { before: present, selectionBefore: selection } = entry;
  return { ...history, present, selection, done: history.done - 1, isSealed: true };
}

export function redo<D, S>(history: History<D, S>): History<D, S> {
  const entry = history.entries[history.done];
  if (entry === undefined) return history;
  const { after: present, selectionAfter: selection } = entry;
  return { ...history, present, selection, done: history.done + 1, isSealed: true };
}

export function undoLabel<D, S>(history: History<D, S>): string | null {
  return history.entries[history.done - 1]?.label ?? null;
}

export function redoLabel<D, S>(history: History<D, S>): string | null {
  return history.entries[history.done]?.label ?? null;
}
