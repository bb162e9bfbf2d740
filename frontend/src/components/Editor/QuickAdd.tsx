/** A search over node types where something is to be added: what cannot stand there is left out. */

import { TextInput } from '@mantine/core';
import { useClickOutside } from '@mantine/hooks';
import { useReactFlow } from '@xyflow/react';
import { type KeyboardEvent, useMemo, useState } from 'react';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { type NodeType, searchTypes } from '../../model/pipeline/catalog';
import { fitsBehind, uncovered } from '../../model/pipeline/operations';
import { type QuickAddAt, documentOf, factsOf } from '../../store/editor';
import { t } from '../../texts/t';
import { addAt, freePlace } from './actions';
import { TypeIcon, hueOf } from './icons';
import box from './NodeBox.module.css';
import classes from './Palette.module.css';

const WIDTH = 320;
const HEIGHT = 380;

export function QuickAdd() {
  const at = useEditor((state) => state.quickAdd);
  // another place begins with an empty search
  return at === null ? null : <Search key={`${at.screen.x} ${at.screen.y} ${at.edge ?? ''}`} at={at} />;
}

function Search({ at }: { readonly at: QuickAddAt }) {
  const store = useEditorStore();
  const catalog = useEditor((state) => state.catalog);
  const { screenToFlowPosition } = useReactFlow();
  const [text, setText] = useState('');
  const [active, setActive] = useState(0);
  const close = () => {
    store.getState().openQuickAdd(null);
    document.querySelector<HTMLElement>('[data-canvas]')?.focus();
  };
  const ref = useClickOutside(() => store.getState().openQuickAdd(null));
  const facts = useEditor((state) => {
    const from = at.from ?? documentOf(state).edges[at.edge ?? '']?.from;
    return from === undefined ? null : factsOf(state, from);
  });
  const types = useMemo(() => {
    const fits = (type: NodeType) =>
      (at.from === undefined || fitsBehind(type, facts)) &&
      (at.edge === undefined || (fitsBehind(type, facts) && type.ports.outputs.length > 0));
    return searchTypes(catalog, text).filter(fits);
  }, [catalog, text, at, facts]);
  const add = (type: NodeType) => {
    const state = store.getState();
    const from = at.from;
    const place = screenToFlowPosition(at.screen);
    const isBeside = from !== undefined && document.activeElement?.closest('[data-canvas]') === null;
    const where = from !== undefined && isBeside ? freePlace(documentOf(state), from[0]) : null;
    const id = addAt(store, type, where ?? uncovered(documentOf(state), [place.x, place.y - 31]), {
      ...(from === undefined ? {} : { from }),
      ...(at.edge === undefined ? {} : { edge: at.edge }),
    });
    close();
    if (id !== null) store.getState().jumpTo(id);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move !== undefined) {
      event.preventDefault();
      setActive((active + move + types.length) % Math.max(1, types.length));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      const type = types[active];
      if (type !== undefined) add(type);
    } else if (event.key === 'Escape') {
      event.preventDefault();
      close();
    }
  };
  const left = Math.max(8, Math.min(at.screen.x, window.innerWidth - WIDTH - 12));
  const top = Math.max(64, Math.min(at.screen.y, window.innerHeight - HEIGHT - 12));
  const idOf = (index: number) => `quick-add-${index}`;
  return (
    <div ref={ref} className={classes.quick} style={{ left, top }} role="dialog" aria-label={t('Add a node')}>
      <TextInput
        size="sm"
        m={8}
        autoFocus
        placeholder={at.edge === undefined ? t('Add a node') : t('Insert a node')}
        aria-label={t('Search nodes to add')}
        role="combobox"
        aria-expanded
        aria-controls="quick-add-list"
        aria-activedescendant={types.length > 0 ? idOf(active) : undefined}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setActive(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div className={classes.quickList} id="quick-add-list" role="listbox" aria-label={t('Node types')}>
        {types.map((type, index) => {
          return (
            <div
              key={type.type}
              id={idOf(index)}
              role="option"
              aria-selected={index === active}
              className={classes.item}
              data-active={index === active || undefined}
              ref={(element) => {
                if (index === active) element?.scrollIntoView({ block: 'nearest' });
              }}
              onMouseMove={() => setActive(index)}
              onClick={() => add(type)}
            >
              <span className={`${box.icon ?? ''} ${classes.icon ?? ''}`} data-hue={hueOf(type.category)}>
                <TypeIcon name={type.icon} size={15} />
              </span>
              <span className={classes.about}>
                <span className={classes.title}>{type.title}</span>
                <span className={classes.summary}>{type.summary}</span>
              </span>
            </div>
          );
        })}
        {types.length === 0 && <p className={classes.hint}>{t('No node that fits here matches.')}</p>}
      </div>
    </div>
  );
}
