/** The editor's part of the command palette: its nodes, and what can be done with the pipeline. */

import { nameOf } from '../../model/pipeline/document';
import { topologicalOrder } from '../../model/pipeline/order';
import type { Command } from '../../store/commands';
import { type EditorStore, documentOf, typeOfNode } from '../../store/editor';
import { t } from '../../texts/t';
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
    group: t('Actions'),
    title,
    run,
    ...(hint === undefined ? {} : { hint }),
  });
  const changes = state.isReadOnly
    ? []
    : [
        action(t('Save a version'), targets.save, 'Ctrl + S'),
        action(t('Preview, or stop it'), targets.preview, 'P'),
        action(t('Undo'), state.undo, 'Ctrl + Z'),
        action(t('Redo'), state.redo, 'Ctrl + Y'),
        action(t('Add a note'), targets.note, 'T'),
        action(t('Lay out again'), () => void actions.arrange(store), 'L'),
        action(t('Group the selected nodes'), () => actions.groupSelected(store), 'Ctrl + G'),
        action(
          t('Collapse the group, or expand it'),
          () => actions.toggleGroups(store, store.getState().history.selection.nodes),
          'G',
        ),
        action(t('Duplicate the selected nodes'), () => actions.duplicateSelected(store), 'Ctrl + D'),
      ];
  const nodes = topologicalOrder(document).map((id): Command => ({
    id,
    group: t('Nodes'),
    title: nameOf(document, id),
    hint: typeOfNode(state, id)?.title ?? '',
    run: () => store.getState().jumpTo(id),
  }));
  return [
    ...nodes,
    ...changes,
    action(t('Deploy'), targets.deploy),
    action(t('Versions'), targets.versions),
    action(t('Select all'), () => actions.selectAll(store), 'Ctrl + A'),
    action(t('Problems'), targets.problems, 'E'),
    action(t('Outline or palette'), targets.outline, 'O'),
    action(t('Keyboard'), targets.sheet, '?'),
  ];
}
