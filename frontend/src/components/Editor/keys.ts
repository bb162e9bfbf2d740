/** Keys of the editor outside of fields. */

import { type EditorStore } from '../../store/editor';
import * as actions from './actions';

export interface KeyTargets {
  readonly quickAdd: () => void;
  readonly connect: (id: string) => void;
  readonly rename: () => void;
  readonly form: () => void;
  readonly save: () => void;
  readonly note: () => void;
  readonly outline: () => void;
  /** Gives the canvas the focus. */
  readonly canvas: () => void;
  readonly problems: () => void;
  readonly preview: () => void;
  readonly sheet: () => void;
}

const ARROWS = { ArrowLeft: 'left', ArrowRight: 'right', ArrowUp: 'up', ArrowDown: 'down' } as const;

/** Whether a key belongs to what has the focus: fields undo and copy their own text. */
export function isInField(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    target.closest('input, textarea, select, [contenteditable="true"], .cm-editor, [role="dialog"], [role="menu"]') !==
      null
  );
}

/** Does what a key stands for; returns whether it stands for something. */
export function pressed(store: EditorStore, event: KeyboardEvent, targets: KeyTargets): boolean {
  const isControl = event.ctrlKey || event.metaKey;
  if (isControl && event.key.toLowerCase() === 's') {
    targets.save();
    return true;
  }
  const isInInspector = event.target instanceof HTMLElement && event.target.closest('[data-inspector]') !== null;
  if (event.key === 'Escape' && isInInspector) {
    targets.canvas();
    return true;
  }
  if (isInField(event.target) || event.altKey) return false;
  const { undo, redo, history, select, openQuickAdd } = store.getState();
  const { nodes } = history.selection;
  const [first] = nodes;
  if (isControl) {
    switch (event.key.toLowerCase()) {
      case 'z':
        if (event.shiftKey) redo();
        else undo();
        return true;
      case 'y':
        redo();
        return true;
      case 'a':
        actions.selectAll(store);
        return true;
      case 'd':
        actions.duplicateSelected(store);
        return true;
      case 'g':
        actions.groupSelected(store);
        return true;
      default:
        return false;
    }
  }
  if (event.key in ARROWS) {
    if (!(event.target instanceof HTMLElement) || event.target.closest('[data-canvas]') === null) return false;
    actions.step(store, ARROWS[event.key as keyof typeof ARROWS], event.shiftKey);
    return true;
  }
  switch (event.key) {
    case 'Delete':
    case 'Backspace':
      actions.removeSelected(store);
      return true;
    case 'Escape':
      openQuickAdd(null);
      select({});
      return true;
    case 'n':
      targets.quickAdd();
      return true;
    case 'c':
      if (first !== undefined) targets.connect(first);
      return true;
    case 'd':
      if (nodes.length > 0) actions.toggleDisabled(store, nodes);
      return true;
    case 'g':
      if (nodes.length > 0) actions.toggleGroups(store, nodes);
      return true;
    case 'F2':
      if (first !== undefined) targets.rename();
      return true;
    case 'Enter':
      if (!(event.target instanceof HTMLElement) || event.target.closest('button, a, summary') !== null) return false;
      if (first !== undefined) targets.form();
      else if (history.selection.notes.length > 0) actions.writeNote();
      return true;
    case 'l':
      void actions.arrange(store);
      return true;
    case 't':
      targets.note();
      return true;
    case 'o':
      targets.outline();
      return true;
    case 'p':
      targets.preview();
      return true;
    case 'e':
      targets.problems();
      return true;
    case '?':
      targets.sheet();
      return true;
    default:
      return false;
  }
}
