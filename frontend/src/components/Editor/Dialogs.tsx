/** The editor's dialogs: connect by keyboard, save with a message, the sheet of shortcuts, and conflicts of a merge. */

import { Button, Group, Modal, TextInput } from '@mantine/core';
import { useMemo, useState } from 'react';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { type Json, nameOf } from '../../model/pipeline/document';
import { type Conflict, decided, placeOf } from '../../model/pipeline/merge';
import { documentOf } from '../../store/editor';
import { type Target, connect, targetsFor } from './actions';
import classes from './Dialogs.module.css';

const CLOSE = { 'aria-label': 'Close' };

export function ConnectDialog({ id, onClose }: { readonly id: string; readonly onClose: () => void }) {
  const store = useEditorStore();
  const name = useEditor((state) => nameOf(documentOf(state), id));
  const targets = useMemo(() => targetsFor(store, id), [store, id]);
  const [text, setText] = useState('');
  const shown = targets.filter((target) => target.text.toLowerCase().includes(text.toLowerCase()));
  const choose = (target: Target) => {
    connect(store, target);
    onClose();
  };
  return (
    <Modal opened onClose={onClose} title={`Connect ${name} to`} closeButtonProps={CLOSE}>
      <TextInput
        data-autofocus
        placeholder="Search"
        aria-label="Search nodes to connect to"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          const [first] = shown;
          if (event.key === 'Enter' && first?.refusal === null) choose(first);
        }}
      />
      <ul className={classes.targets} aria-label="Inputs">
        {shown.map((target) => (
          <li key={`${target.from.join(' ')} ${target.to.join(' ')}`}>
            <button
              type="button"
              className={classes.target}
              disabled={target.refusal !== null}
              onClick={() => choose(target)}
            >
              <span>{target.text}</span>
              {target.refusal !== null && <span className={classes.why}>{target.refusal}</span>}
            </button>
          </li>
        ))}
      </ul>
      {shown.length === 0 && <p className="tm-dim">There is no input to connect to.</p>}
    </Modal>
  );
}

interface SaveProps {
  readonly next: number;
  readonly isSaving: boolean;
  readonly error: string | null;
  readonly onSave: (message: string) => void;
  readonly onClose: () => void;
}

export function SaveDialog({ next, isSaving, error, onSave, onClose }: SaveProps) {
  const [message, setMessage] = useState('');
  return (
    <Modal opened onClose={onClose} title={`Save as version ${next}`} closeButtonProps={CLOSE}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onSave(message);
        }}
      >
        <TextInput
          data-autofocus
          label="What has changed"
          placeholder="optional"
          value={message}
          error={error}
          onChange={(event) => setMessage(event.currentTarget.value)}
        />
        <p className={classes.about}>A version never changes. Running jobs stay as they are until one is deployed.</p>
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={onClose}>
            Keep editing
          </Button>
          <Button type="submit" loading={isSaving}>
            Save
          </Button>
        </Group>
      </form>
    </Modal>
  );
}

const SHORTCUTS: readonly (readonly [string, string])[] = [
  ['N', 'Add a node, behind the selected one'],
  ['C', 'Connect the selected node'],
  ['Enter', 'Go to the form'],
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
    <Modal opened onClose={onClose} title="Keyboard" size="lg" closeButtonProps={CLOSE}>
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
    </Modal>
  );
}

/** Fields that two people have changed. The work goes on while they wait: ours hold until then. */
export function Conflicts() {
  const store = useEditorStore();
  const conflicts = useEditor((state) => state.conflicts);
  const document = useEditor(documentOf);
  const [conflict] = conflicts;
  if (conflict === undefined) return null;
  const settle = (side: 'ours' | 'theirs') => {
    store.getState().transact(`Decided: ${placeOf(conflict, document)}`, (before) => decided(before, conflict, side));
    store.setState((state) => ({ conflicts: state.conflicts.filter((each) => each !== conflict) }));
  };
  return (
    <section className={classes.conflict} aria-label="Changed by both">
      <strong>{placeOf(conflict, document)}</strong>
      <span> was changed here and elsewhere{conflicts.length > 1 ? ` (1 of ${conflicts.length})` : ''}.</span>
      <div className={classes.sides}>
        <Side title="Here" value={conflict.ours} onTake={() => settle('ours')} />
        <Side title="Elsewhere" value={conflict.theirs} onTake={() => settle('theirs')} />
      </div>
    </section>
  );
}

interface SideProps {
  readonly title: string;
  readonly value: Conflict['ours'];
  readonly onTake: () => void;
}

function Side({ title, value, onTake }: SideProps) {
  return (
    <div className={classes.side}>
      <div className={classes.sideTitle}>
        {title}
        <Button size="compact-xs" variant="default" onClick={onTake}>
          Take this
        </Button>
      </div>
      <pre className={classes.value}>{shown(value)}</pre>
    </div>
  );
}

function shown(value: Json | undefined): string {
  if (value === undefined) return '(deleted)';
  return typeof value === 'string' ? value : JSON.stringify(value, null, 1);
}
