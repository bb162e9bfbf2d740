/** The editor's part of the command palette: its nodes, and what can be done with the pipeline. */

import { nameOf } from '../../model/pipeline/document';
import { topologicalOrder } from '../../model/pipeline/order';
import type { Command } from '../../store/commands';
import { type EditorStore, documentOf, typeOfNode } from '../../store/editor';
import * as actions from './actions';

export interface EditorTargets {
  readonly save: () => void;
  readonly deploy: () => void;
  readonly versions: () => void;
  readonly problems: () => void;
  readonly preview: () => void;
  readonly outline: () => void;
  readonly sheet: () => void;
  readonly note: () => void;
}

export function editorCommands(store: EditorStore, targets: EditorTargets): readonly Command[] {
  const state = store.getState();
  const document = documentOf(state);
  const action = (title: string, run: () => void, hint?: string): Command => ({
    id: title,
    group: 'Actions',
    title,
    run,
    ...(hint === undefined ? {} : { hint }),
  });
  const changes = state.isReadOnly
    ? []
    : [
        action('Save a version', targets.save, 'Ctrl + S'),
        action('Preview, or stop it', targets.preview, 'P'),
        action('Undo', state.undo, 'Ctrl + Z'),
        action('Redo', state.redo, 'Ctrl + Y'),
        action('Add a note', targets.note, 'T'),
        action('Lay out again', () => void actions.arrange(store), 'L'),
        action('Group the selected nodes', () => actions.groupSelected(store), 'Ctrl + G'),
        action(
          'Collapse the group, or expand it',
          () => actions.toggleGroups(store, store.getState().history.selection.nodes),
          'G',
        ),
        action('Duplicate the selected nodes', () => actions.duplicateSelected(store), 'Ctrl + D'),
      ];
  const nodes = topologicalOrder(document).map((id): Command => ({
    id,
    group: 'Nodes',
    title: nameOf(document, id),
    hint: typeOfNode(state, id)?.title ?? '',
    run: () => store.getState().jumpTo(id),
  }));
  return [
    ...nodes,
    ...changes,
    action('Deploy', targets.deploy),
    action('Versions', targets.versions),
    action('Select all', () => actions.selectAll(store), 'Ctrl + A'),
    action('Problems', targets.problems, 'E'),
    action('Outline or palette', targets.outline, 'O'),
    action('Keyboard', targets.sheet, '?'),
  ];
}
