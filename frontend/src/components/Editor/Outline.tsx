/** The pipeline as a tree from the sources down: the way to work on it by keyboard and by ear. */

import { ActionIcon, Menu } from '@mantine/core';
import { IconDots } from '@tabler/icons-react';
import { type KeyboardEvent, useId, useMemo, useRef } from 'react';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { type Problem, bySeverity } from '../../model/pipeline/catalog';
import { type OutlineItem, outline } from '../../model/pipeline/outline';
import { documentOf, typeOfNode } from '../../store/editor';
import { t } from '../../texts/t';
import { removeNode, toggleDisabled, toggleGroups } from './actions';
import { TypeIcon, SeverityIcon, hueOf, SEVERITY_TEXT } from './icons';
import box from './NodeBox.module.css';
import classes from './Outline.module.css';

interface Props {
  readonly onConnect: (id: string) => void;
  readonly onRename: (id: string) => void;
}

export function Outline({ onConnect, onRename }: Props) {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  const chosen = useEditor((state) => state.history.selection.nodes);
  const items = useMemo(() => outline(document), [document]);
  const tree = useRef<HTMLDivElement>(null);
  const current = items.find(({ id }) => chosen.includes(id))?.id ?? items[0]?.id;
  const choose = (id: string | undefined) => {
    if (id === undefined) return;
    store.getState().jumpTo(id);
    tree.current?.querySelector<HTMLElement>(`[data-item="${id}"]`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const index = items.findIndex(({ id }) => id === current);
    const next = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: items.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    choose(items[Math.max(0, Math.min(items.length - 1, next))]?.id);
  };
  if (items.length === 0) return <p className={classes.none}>{t('No nodes yet.')}</p>;
  return (
    <div
      ref={tree}
      role="tree"
      aria-label={t('Outline of the pipeline')}
      className={classes.tree}
      onKeyDown={onKeyDown}
    >
      {items.map((item) => (
        <Item
          key={item.id}
          item={item}
          isChosen={chosen.includes(item.id)}
          isCurrent={item.id === current}
          onChoose={() => choose(item.id)}
          onConnect={() => onConnect(item.id)}
          onRename={() => onRename(item.id)}
        />
      ))}
    </div>
  );
}

interface ItemProps {
  readonly item: OutlineItem;
  readonly isChosen: boolean;
  readonly isCurrent: boolean;
  readonly onChoose: () => void;
  readonly onConnect: () => void;
  readonly onRename: () => void;
}

function Item({ item, isChosen, isCurrent, onChoose, onConnect, onRename }: ItemProps) {
  const store = useEditorStore();
  const node = useEditor((state) => documentOf(state).nodes[item.id]);
  const type = useEditor((state) => typeOfNode(state, item.id));
  const problems = useEditor((state) => state.validation.problems);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const textId = useId();
  const [problem] = bySeverity(problems.filter((each) => each.node === item.id));
  if (node === undefined) return null;
  const ways = [
    item.from.length > 0 ? t('from {from}', { from: item.from.join(', ') }) : '',
    item.to.length > 0 ? t('to {to}', { to: item.to.join(', ') }) : '',
    item.group === null
      ? ''
      : item.group.collapsed
        ? t('in {name}, collapsed', { name: item.group.name })
        : t('in {name}', { name: item.group.name }),
  ].filter(Boolean);
  return (
    <div
      role="treeitem"
      aria-level={item.level}
      aria-selected={isChosen}
      aria-labelledby={textId}
      tabIndex={isCurrent ? 0 : -1}
      data-item={item.id}
      data-chosen={isChosen || undefined}
      className={classes.item}
      style={{ paddingLeft: 8 + Math.min(item.level - 1, 6) * 12 }}
      onClick={onChoose}
    >
      <span className={`${box.icon ?? ''} ${classes.icon ?? ''}`} data-hue={hueOf(type?.category ?? '')}>
        <TypeIcon name={type?.icon ?? ''} size={14} />
      </span>
      <span className={classes.texts} id={textId}>
        <span className={classes.name} data-off={node.disabled === true || undefined}>
          {node.name}
        </span>{' '}
        <span className={classes.ways}>{ways.join(' · ')}</span>
        <span className="tm-visually-hidden">
          {describe(type?.title ?? node.type, node.disabled === true, problem)}
        </span>
      </span>
      {problem !== undefined && (
        <span className={box.badge}>
          <SeverityIcon severity={problem.severity} />
        </span>
      )}
      {!isReadOnly && (
        <span className={classes.actions} onClick={(event) => event.stopPropagation()}>
          <Menu position="bottom-end" width={190} withinPortal>
            <Menu.Target>
              <ActionIcon
                variant="subtle"
                color="gray"
                size="sm"
                tabIndex={isCurrent ? 0 : -1}
                aria-label={t('Actions of {name}', { name: node.name })}
              >
                <IconDots size={15} aria-hidden />
              </ActionIcon>
            </Menu.Target>
            <Menu.Dropdown>
              <Menu.Item onClick={onConnect}>{t('Connect to…')}</Menu.Item>
              <Menu.Item
                onClick={() => {
                  const port = store.getState().validation.nodes[item.id]?.ports.outputs[0] ?? type?.ports.outputs[0];
                  const screen = { x: window.innerWidth / 2 - 160, y: 140 };
                  if (port === undefined) return;
                  // the menu gives the focus back to what has had it when it closed
                  setTimeout(() => store.getState().openQuickAdd({ screen, from: [item.id, port.name] }));
                }}
                disabled={type?.ports.outputs.length === 0}
              >
                {t('Insert after…')}
              </Menu.Item>
              <Menu.Item onClick={onRename}>{t('Rename')}</Menu.Item>
              <Menu.Item onClick={() => toggleDisabled(store, [item.id])}>
                {node.disabled === true ? t('Enable') : t('Disable')}
              </Menu.Item>
              {item.group !== null && (
                <Menu.Item onClick={() => toggleGroups(store, [item.id])}>
                  {item.group.collapsed ? t('Expand') : t('Collapse')} {item.group.name}
                </Menu.Item>
              )}
              <Menu.Item color="red.8" onClick={() => removeNode(store, item.id)}>
                {t('Delete')}
              </Menu.Item>
            </Menu.Dropdown>
          </Menu>
        </span>
      )}
    </div>
  );
}

function describe(type: string, isOff: boolean, problem: Problem | undefined): string {
  const said = problem === undefined ? '' : `${SEVERITY_TEXT[problem.severity]}: ${problem.message}`;
  return ['', type, isOff ? 'disabled' : '', said].filter((part, index) => index === 0 || part !== '').join(', ');
}
