/** All keys of the editor. */

import { Dialog } from '../Dialog/Dialog';
import classes from './ShortcutSheet.module.css';

const SHORTCUTS: readonly (readonly [string, string])[] = [
  ['N', 'Add a node, behind the selected one; so does a double click on the canvas, where it is'],
  ['C', 'Connect the selected node'],
  ['Enter, double click', 'Go to the form'],
  ['F2', 'Rename'],
  ['D', 'Disable or enable'],
  ['G', 'Collapse the group of the selected nodes, or expand it'],
  ['Delete', 'Delete and reconnect the neighbours'],
  ['Arrows', 'Select the next node along edges'],
  ['Shift + arrows', 'Move the selected nodes'],
  ['Ctrl + A', 'Select all'],
  ['Ctrl + C, X, V', 'Copy, cut, paste nodes, or rows of a table'],
  ['Ctrl + D', 'Duplicate'],
  ['Ctrl + G', 'Group'],
  ['Ctrl + Z', 'Undo'],
  ['Ctrl + Shift + Z, Ctrl + Y', 'Redo'],
  ['Ctrl + S', 'Save a version'],
  ['Ctrl + K', 'Find nodes, actions, pipelines, jobs'],
  ['L', 'Lay out again'],
  ['T', 'Add a note'],
  ['O', 'Outline or palette'],
  ['P', 'Preview, or stop it'],
  ['E', 'Problems'],
  ['Escape', 'Clear the selection; in the form, go back to the canvas'],
  ['?', 'This sheet'],
];

export function ShortcutSheet({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog onClose={onClose} title="Keyboard" size="lg">
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
        With the pointer: drag from a port to connect, onto an edge to insert, on the canvas to select; hold Space to
        move the canvas.
      </p>
    </Dialog>
  );
}
