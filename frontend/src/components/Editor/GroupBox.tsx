/** Groups on the canvas: the frame around the nodes of one, and the box that it is once it is collapsed. */

import { IconArrowsDiagonal, IconArrowsDiagonalMinimize2, IconStack2 } from '@tabler/icons-react';
import { type NodeProps, useUpdateNodeInternals } from '@xyflow/react';
import { memo, useEffect, useMemo } from 'react';
import { useShallow } from 'zustand/react/shallow';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { bySeverity } from '../../model/pipeline/catalog';
import * as groups from '../../model/pipeline/groups';
import { documentOf, factsOf, portsOfNode } from '../../store/editor';
import drawing from '../../styles/drawing.module.css';
import { t } from '../../texts/t';
import { toggleGroups } from './actions';
import look from './Canvas.module.css';
import { SEVERITY_TEXT, SeverityIcon } from './icons';
import classes from './NodeBox.module.css';
import { PortRow } from './NodeBox';

function useGroup(box: string) {
  return useEditor((state) => documentOf(state).layout?.groups?.[groups.groupOfBox(box) ?? '']);
}

export const GroupFrame = memo(function GroupFrame({ id }: NodeProps) {
  const store = useEditorStore();
  const group = useGroup(id);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  if (group === undefined) return null;
  return (
    <div className={drawing.frame}>
      <div className={look.groupHead}>
        <button
          type="button"
          className={`nopan ${look.groupName ?? ''}`}
          title={t('Select all nodes of this group; drag to move them')}
          tabIndex={-1}
          onClick={() => store.getState().select({ nodes: group.nodes })}
        >
          {group.name}
        </button>
        {!isReadOnly && (
          <button
            type="button"
            className={`nodrag nopan ${look.groupName ?? ''}`}
            title={t('Collapse this group (G)')}
            aria-label={t('Collapse {name}', { name: group.name })}
            tabIndex={-1}
            onClick={() => toggleGroups(store, group.nodes.slice(0, 1))}
          >
            <IconArrowsDiagonalMinimize2 size={13} aria-hidden />
          </button>
        )}
      </div>
    </div>
  );
});

export const GroupBox = memo(function GroupBox({ id, selected }: NodeProps) {
  const store = useEditorStore();
  const group = useGroup(id);
  const edge = useBoundary(id);
  const problems = useEditor(
    useShallow((state) => state.validation.problems.filter(({ node }) => group?.nodes.includes(node ?? '') === true)),
  );
  const update = useUpdateNodeInternals();
  const key = [...edge.inputs.map((port) => port.id), '>', ...edge.outputs.map((port) => port.id)].join(' ');
  useEffect(() => update(id), [id, key, update]);
  if (group === undefined) return null;
  const [problem] = bySeverity(problems);
  const count = `${group.nodes.length} ${group.nodes.length === 1 ? 'node' : 'nodes'}`;
  return (
    <div
      className={`${classes.node ?? ''} ${look.collapsed ?? ''}`}
      data-group={groups.groupOfBox(id)}
      data-selected={selected || undefined}
      data-severity={problem?.severity}
      onClick={(event) => {
        // one node of it may have been chosen: a click means all
        if (!event.shiftKey && !event.ctrlKey && !event.metaKey) store.getState().select({ nodes: group.nodes });
      }}
      onDoubleClick={() => toggleGroups(store, group.nodes.slice(0, 1))}
    >
      <div className={classes.top}>
        <span className={classes.icon}>
          <IconStack2 size={16} aria-hidden />
        </span>
        <span className={classes.texts}>
          <span className={classes.name}>{group.name}</span>
          <span className={classes.summary}>{t('Group of {count}', { count })}</span>
        </span>
        {problem !== undefined && (
          <span className={classes.badge} title={`${SEVERITY_TEXT[problem.severity]}: ${problem.message}`}>
            <SeverityIcon severity={problem.severity} />
            <span className="tm-visually-hidden">{SEVERITY_TEXT[problem.severity]}</span>
          </span>
        )}
        <button
          type="button"
          className={`nodrag nopan ${look.expand ?? ''}`}
          title={t('Expand this group (G)')}
          aria-label={t('Expand {name}', { name: group.name })}
          tabIndex={-1}
          onClick={(event) => {
            event.stopPropagation();
            toggleGroups(store, group.nodes.slice(0, 1));
          }}
        >
          <IconArrowsDiagonal size={14} aria-hidden />
        </button>
      </div>
      <div className={classes.ports}>
        <div className={classes.inputs}>
          {edge.inputs.map(({ id: handle, node, port, label }) => (
            <PortRow key={handle} node={node} port={port} kind="target" isPlain={false} handle={handle} name={label} />
          ))}
        </div>
        <div className={classes.outputs}>
          {edge.outputs.map(({ id: handle, node, port, label }) => (
            <PortRow
              key={handle}
              node={node}
              port={port}
              kind="source"
              isPlain={false}
              columns={factsOf(store.getState(), [node, port.name])?.columns ?? null}
              handle={handle}
              name={label}
            />
          ))}
        </div>
      </div>
    </div>
  );
});

function useBoundary(box: string): groups.Boundary {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  const validation = useEditor((state) => state.validation);
  return useMemo(() => {
    // ports follow from both
    const state = { ...store.getState(), validation };
    return groups.boundary(document, groups.groupOfBox(box) ?? '', (id) => portsOfNode(state, id));
  }, [store, document, validation, box]);
}
