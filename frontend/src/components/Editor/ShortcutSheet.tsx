/** All keys of the editor. */

import { t } from '../../texts/t';
import { Dialog } from '../Dialog/Dialog';
import classes from './ShortcutSheet.module.css';

const SHORTCUTS: readonly (readonly [string, string])[] = [
  ['N', t('Add a node, behind the selected one; so does a double click on the canvas, where it is')],
  ['C', t('Connect the selected node')],
  [t('Enter, double click'), t('Go to the form')],
  ['F2', t('Rename')],
  ['D', t('Disable or enable')],
  ['G', t('Collapse the group of the selected nodes, or expand it')],
  [t('Delete'), t('Delete and reconnect the neighbours')],
  [t('Arrows'), t('Select the next node along edges')],
  [t('Shift + arrows'), t('Move the selected nodes')],
  [t('Ctrl + A'), t('Select all')],
  [t('Ctrl + C, X, V'), t('Copy, cut, paste nodes, or rows of a table')],
  [t('Ctrl + D'), t('Duplicate')],
  [t('Ctrl + G'), t('Group')],
  [t('Ctrl + Z'), t('Undo')],
  [t('Ctrl + Shift + Z, Ctrl + Y'), t('Redo')],
  [t('Ctrl + S'), t('Save a version')],
  [t('Ctrl + K'), t('Find nodes, actions, pipelines, jobs')],
  ['L', t('Lay out again')],
  ['T', t('Add a note')],
  ['O', t('Outline or palette')],
  ['P', t('Preview, or stop it')],
  ['E', t('Problems')],
  [t('Escape'), t('Clear the selection; in the form, go back to the canvas')],
  ['?', t('This sheet')],
];

export function ShortcutSheet({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog onClose={onClose} title={t('Keyboard')} size="lg">
      <dl className={classes.shortcuts}>
        {SHORTCUTS.map(([keys, does]) => (
          <div key={keys}>
            <dt>
              <kbd className={classes.keys}>{keys}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <p className="tm-dim">
        {t(
          'With the pointer: drag from a port to connect, onto an edge to insert, on the canvas to select; hold Space to move the canvas.',
        )}
      </p>
    </Dialog>
  );
}
