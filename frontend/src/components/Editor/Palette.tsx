/** All node types by category, and notes, with a search: to be clicked, or dragged onto the canvas or onto an edge. */

import { TextInput } from '@mantine/core';
import { IconNote, IconSearch } from '@tabler/icons-react';
import { type DragEvent, useMemo, useState } from 'react';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { type NodeType, searchTypes } from '../../model/pipeline/catalog';
import { documentOf } from '../../store/editor';
import { t } from '../../texts/t';
import { addAt, addNote, freePlace } from './actions';
import { TypeIcon, hueOf } from './icons';
import box from './NodeBox.module.css';
import classes from './Palette.module.css';

/** What is dragged from here: the name of a node type, or `NOTE`. */
export const DRAG_TYPE = 'application/x-tidemark-node-type';
export const NOTE = 'note';
const NOTE_WORDS = t('note comment text sticky');

export function Palette() {
  const store = useEditorStore();
  const catalog = useEditor((state) => state.catalog);
  const [text, setText] = useState('');
  const groups = useMemo(() => byCategory(searchTypes(catalog, text)), [catalog, text]);
  const hasNote = NOTE_WORDS.includes(text.trim().toLowerCase());
  const add = (type: NodeType) => {
    const state = store.getState();
    const [only, ...others] = state.history.selection.nodes;
    const behind = others.length === 0 && type.ports.inputs.length > 0 ? (only ?? null) : null;
    const output = behind === null ? undefined : state.validation.nodes[behind]?.ports.outputs[0]?.name;
    const from = behind !== null && output !== undefined ? { from: [behind, output] as const } : {};
    const id = addAt(store, type, freePlace(documentOf(state), behind), from);
    if (id !== null) store.getState().jumpTo(id);
  };
  return (
    <div className={classes.palette}>
      <TextInput
        size="sm"
        placeholder={t('Search nodes')}
        aria-label={t('Search nodes')}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        leftSection={<IconSearch size={15} aria-hidden />}
        m={10}
      />
      <div className={classes.list}>
        {/key.?by/i.test(text) && (
          <p className={classes.hint}>
            {t('Keys have no node of their own: each node that needs keys has a parameter for them.')}
          </p>
        )}
        {groups.length === 0 && !hasNote && <p className={classes.hint}>{t('No node matches.')}</p>}
        {groups.map(([category, types]) => (
          <section key={category} aria-label={category}>
            <h2 className={classes.category}>{category}</h2>
            {types.map((type) => (
              <PaletteItem key={type.type} type={type} onAdd={() => add(type)} />
            ))}
          </section>
        ))}
        {hasNote && (
          <section aria-label={t('Notes')}>
            <h2 className={classes.category}>{t('Notes')}</h2>
            <button
              type="button"
              className={classes.item}
              draggable
              title={t('A text on the canvas, for people')}
              onClick={() => addNote(store, freePlace(documentOf(store.getState()), null))}
              onDragStart={(event) => beginDrag(event, NOTE)}
            >
              <span className={`${box.icon ?? ''} ${classes.icon ?? ''}`}>
                <IconNote size={15} aria-hidden />
              </span>
              <span className={classes.title}>{t('Note')}</span>
            </button>
          </section>
        )}
      </div>
    </div>
  );
}

export function byCategory(types: readonly NodeType[]): readonly (readonly [string, readonly NodeType[]])[] {
  const found = new Map<string, NodeType[]>();
  for (const type of types) {
    const known = found.get(type.category);
    if (known === undefined) found.set(type.category, [type]);
    else known.push(type);
  }
  return [...found];
}

function beginDrag({ dataTransfer }: DragEvent, what: string): void {
  dataTransfer.setData(DRAG_TYPE, what);
  dataTransfer.effectAllowed = 'copy';
}

function PaletteItem({ type, onAdd }: { readonly type: NodeType; readonly onAdd: () => void }) {
  return (
    <button
      type="button"
      className={classes.item}
      draggable
      title={type.summary}
      onClick={onAdd}
      onDragStart={(event) => beginDrag(event, type.type)}
    >
      <span className={`${box.icon ?? ''} ${classes.icon ?? ''}`} data-hue={hueOf(type.category)}>
        <TypeIcon name={type.icon} size={15} />
      </span>
      <span className={classes.title}>{type.title}</span>
    </button>
  );
}
