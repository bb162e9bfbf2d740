/**
 * The state of one open editor: the document with its history, the selection, and what the server says of it.
 *
 * Everything that changes the document goes through `transact`, so that all of it can be undone. What is kept in the
 * browser is written by a subscriber (see hooks/useAutosave), in the same turn.
 */

import { createStore } from 'zustand/vanilla';

import { arranged } from '../model/pipeline/arranged';
import type { Catalog, Facts, NodeType, Ports, Problem, Validation } from '../model/pipeline/catalog';
import { NOTHING_KNOWN, portsOf, typeOf } from '../model/pipeline/catalog';
import type { PipelineDocument } from '../model/pipeline/document';
import { codeLine } from '../model/pipeline/forms';
import { type Hidden, hiddenNodes } from '../model/pipeline/groups';
import * as history from '../model/pipeline/history';
import { applyPatch } from '../model/pipeline/jsonPatch';
import type { Conflict } from '../model/pipeline/merge';
import { tidied } from '../model/pipeline/merge';
import type { SaveState } from '../model/pipeline/saving';
import { t } from '../texts/t';

export interface Selection {
  readonly nodes: readonly string[];
  readonly edges: readonly string[];
  readonly notes: readonly string[];
}

export const NO_SELECTION: Selection = { nodes: [], edges: [], notes: [] };

/** Where the quick-add opens: on the screen, with the output or the edge that it adds to. */
export interface QuickAddAt {
  readonly screen: { readonly x: number; readonly y: number };
  readonly from?: readonly [string, string];
  readonly edge?: string;
}

export interface FocusRequest {
  /** Null: the pipeline itself. */
  readonly node: string | null;
  readonly field: string | null;
  /** Of the Python in this field, from 1: it is marked. */
  readonly line: number | null;
  /** Another number each time: the same place can be asked for again. */
  readonly nonce: number;
}

export interface TransactOptions {
  readonly mergeKey?: string;
  /** What is selected then, also once it is done again; asked for after the change. */
  readonly select?: () => Partial<Selection>;
}

export interface EditorState {
  readonly pipelineId: string;
  readonly catalog: Catalog;
  readonly isReadOnly: boolean;
  readonly history: history.History<PipelineDocument, Selection>;
  readonly validation: Validation;
  /** The document that `validation` is about. */
  readonly validated: PipelineDocument | null;
  readonly validationError: string | null;
  readonly conflicts: readonly Conflict[];
  readonly saveState: SaveState;
  readonly saveError: string | null;
  readonly savedAt: number | null;
  /** Whether this browser has a copy of what is not on the server. */
  readonly isKept: boolean;
  /** The head: what Save makes the next version of. */
  readonly head: { readonly number: number; readonly document: PipelineDocument };
  readonly quickAdd: QuickAddAt | null;
  readonly focus: FocusRequest | null;
  /** For screen readers, and a line below the canvas. */
  readonly announcement: string;

  readonly transact: (
    label: string,
    change: (document: PipelineDocument) => PipelineDocument | null,
    options?: TransactOptions,
  ) => boolean;
  readonly select: (selection: Partial<Selection>) => void;
  readonly undo: () => void;
  readonly redo: () => void;
  readonly seal: () => void;
  readonly announce: (text: string) => void;
  readonly openQuickAdd: (at: QuickAddAt | null) => void;
  /** Selects a node, or the pipeline itself, and gives a field of it the focus. */
  readonly jumpTo: (node: string | null, field?: string | null, line?: number | null) => void;
  readonly applyFix: (problem: Problem, index: number) => void;
}

export type EditorStore = ReturnType<typeof createEditor>;

export interface Opened {
  readonly pipelineId: string;
  readonly catalog: Catalog;
  readonly document: PipelineDocument;
  readonly head: EditorState['head'];
  readonly isReadOnly: boolean;
}

/** Random hexadecimal digits, also where the page was served over plain HTTP. */
export function makeId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function createEditor({ document, ...opened }: Opened) {
  return createStore<EditorState>()((set, get) => ({
    ...opened,
    history: history.startHistory(document, NO_SELECTION),
    validation: NOTHING_KNOWN,
    validated: null,
    validationError: null,
    conflicts: [],
    saveState: 'saved',
    saveError: null,
    savedAt: null,
    isKept: false,
    quickAdd: null,
    focus: null,
    announcement: '',

    transact: (label, change, { mergeKey, select } = {}) => {
      const { history: before, isReadOnly } = get();
      if (isReadOnly) return false;
      const changed = change(before.present);
      if (changed === null || changed === before.present) return false;
      const selection = present(changed, select === undefined ? before.selection : { ...NO_SELECTION, ...select() });
      const now = Date.now();
      const after = history.record(before, { label, document: changed, selection, mergeKey: mergeKey ?? null, now });
      set({ history: after, announcement: label });
      return true;
    },
    select: (selection) => {
      const { history: before } = get();
      const chosen = { ...NO_SELECTION, ...selection };
      if (isSameSelection(chosen, before.selection)) return;
      set({ history: history.seal({ ...before, selection: chosen }) });
    },
    undo: () => {
      const { history: before, isReadOnly } = get();
      const label = history.undoLabel(before);
      if (!isReadOnly && label !== null)
        set({ history: history.undo(before), announcement: t('Undone: {label}', { label }) });
    },
    redo: () => {
      const { history: before, isReadOnly } = get();
      const label = history.redoLabel(before);
      if (!isReadOnly && label !== null)
        set({ history: history.redo(before), announcement: t('Redone: {label}', { label }) });
    },
    seal: () => set({ history: history.seal(get().history) }),
    announce: (announcement) => set({ announcement }),
    openQuickAdd: (quickAdd) => set({ quickAdd }),
    jumpTo: (node, field = null, wanted = null) => {
      get().select(node === null ? {} : { nodes: [node] });
      const line = wanted ?? codeLine(node === null ? undefined : typeOfNode(get(), node)?.schema, field);
      set({ focus: { node, field, line, nonce: (get().focus?.nonce ?? 0) + 1 } });
    },
    applyFix: (problem, index) => {
      const fix = problem.fixes[index];
      if (fix === undefined) return;
      try {
        get().transact(fix.title, (document) => arranged(document, tidied(applyPatch(document, fix.patch))));
      } catch {
        set({ announcement: t('This fix was for an earlier state of the pipeline') });
      }
    },
  }));
}

/** Only what is in the document can be selected. */
function present(document: PipelineDocument, { nodes, edges, notes }: Selection): Selection {
  return {
    nodes: nodes.filter((id) => Object.hasOwn(document.nodes, id)),
    edges: edges.filter((id) => Object.hasOwn(document.edges, id)),
    notes: notes.filter((id) => Object.hasOwn(document.layout?.notes ?? {}, id)),
  };
}

function isSameSelection(one: Selection, other: Selection): boolean {
  const isSame = (a: readonly string[], b: readonly string[]) =>
    a.length === b.length && a.every((id, index) => id === b[index]);
  return isSame(one.nodes, other.nodes) && isSame(one.edges, other.edges) && isSame(one.notes, other.notes);
}

// --- selectors ------------------------------------------------------------------------------------------------------

export function documentOf(state: EditorState): PipelineDocument {
  return state.history.present;
}

export function typeOfNode(state: EditorState, id: string): NodeType | undefined {
  return typeOf(state.catalog, documentOf(state).nodes[id]?.type ?? '');
}

export function portsOfNode(state: EditorState, id: string): Ports {
  return portsOf(documentOf(state), id, typeOfNode(state, id), state.validation.nodes[id]);
}

export function factsOf(state: EditorState, [node, port]: readonly [string, string]): Facts | null {
  return state.validation.nodes[node]?.outputs[port] ?? null;
}

const NONE_HIDDEN: Hidden = new Map();

/** The nodes in collapsed groups. Who may not change the pipeline could not expand a group: there, all are shown. */
export function hiddenIn(state: Pick<EditorState, 'isReadOnly' | 'history'>): Hidden {
  return state.isReadOnly ? NONE_HIDDEN : hiddenNodes(state.history.present);
}
