/** A node on the canvas: icon and name, one line of what it does, its ports, and what is wrong with it. */

import { Handle, type NodeProps, Position, useUpdateNodeInternals } from '@xyflow/react';
import { IconPlayerPauseFilled, IconPlus } from '@tabler/icons-react';
import { createContext, memo, useContext, useEffect, useMemo, useRef } from 'react';
import { useShallow } from 'zustand/react/shallow';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { usePreview } from '../../hooks/usePreview';
import { type Facts, type Port, bySeverity, endsAt, portsWith } from '../../model/pipeline/catalog';
import { realEnd } from '../../model/pipeline/groups';
import { refusal } from '../../model/pipeline/operations';
import { isPinned } from '../../model/pipeline/samples';
import { documentOf, factsOf, portsOfNode, typeOfNode } from '../../store/editor';
import { t } from '../../texts/t';
import { TypeIcon, SeverityIcon, hueOf, SEVERITY_TEXT } from './icons';
import classes from './NodeBox.module.css';
import { PinBadge, PreviewBadge } from './PreviewBadge';

const PLAIN = new Set(['in', 'out']);

interface End {
  readonly nodeId: string;
  readonly id?: string | null;
  readonly type: 'source' | 'target';
}

/** Where the connection that is being drawn begins; null: none is. */
export const ConnectingFrom = createContext<End | null>(null);

/** Whether boxes have their texts and icons; false: they are too far away to be read, and get them after the first paint. */
export const BoxDetails = createContext(true);

export const NodeBox = memo(function NodeBox({ id, selected }: NodeProps) {
  // as few subscriptions as can be: there may be hundreds of boxes
  const { node, type, state, isReadOnly, isPin } = useEditor(
    useShallow((each) => ({
      node: documentOf(each).nodes[id],
      type: typeOfNode(each, id),
      state: each.validation.nodes[id],
      isReadOnly: each.isReadOnly,
      isPin: isPinned(documentOf(each), id),
    })),
  );
  const ends = useEditor(useShallow((each) => endsAt(documentOf(each).edges, id)));
  const ports = useMemo(() => portsWith(ends, type, state), [ends, type, state]);
  const problems = useEditor(useShallow((each) => each.validation.problems.filter((problem) => problem.node === id)));
  const hasPreview = usePreview(({ shown }) => shown !== null);
  const hasDetails = useContext(BoxDetails);
  const update = useUpdateNodeInternals();
  const key = [...ports.inputs.map(({ name }) => name), '>', ...ports.outputs.map(({ name }) => name)].join(' ');
  const measured = useRef(key);
  useEffect(() => {
    // React Flow measures a new box by itself; told so for each of 300, it would tell all 300 each time
    if (measured.current === key) return;
    measured.current = key;
    update(id);
  }, [id, key, update]);
  if (node === undefined) return null;
  const [problem] = bySeverity(problems);
  const isPlain = [...ports.inputs, ...ports.outputs].every(({ name }) => PLAIN.has(name));
  const label = state?.label ?? '';
  return (
    <div
      className={classes.node}
      data-node={id}
      data-selected={selected || undefined}
      data-severity={problem?.severity}
      data-off={node.disabled === true || state?.is_active === false || undefined}
      data-plain={isPlain || undefined}
    >
      <div className={classes.top}>
        <span className={classes.icon} data-hue={hueOf(type?.category ?? '')}>
          {hasDetails && <TypeIcon name={type?.icon ?? ''} size={16} />}
        </span>
        <span className={classes.texts}>
          <span className={classes.name}>{hasDetails && node.name}</span>
          <span className={classes.summary} title={label}>
            {hasDetails &&
              (type === undefined
                ? t('{type} is not installed here', { type: node.type })
                : label === ''
                  ? type.title
                  : label)}
          </span>
        </span>
        {node.disabled === true && (
          <span className={classes.badge} title={t('Disabled')}>
            <IconPlayerPauseFilled size={13} aria-hidden />
            <span className="tm-visually-hidden">{t('Disabled')}</span>
          </span>
        )}
        {isPin && <PinBadge />}
        {hasPreview && <PreviewBadge id={id} />}
        {problem !== undefined && (
          <span className={classes.badge} title={`${SEVERITY_TEXT[problem.severity]}: ${problem.message}`}>
            <SeverityIcon severity={problem.severity} />
            <span className="tm-visually-hidden">{SEVERITY_TEXT[problem.severity]}</span>
          </span>
        )}
      </div>
      <div className={classes.ports}>
        <div className={classes.inputs}>
          {ports.inputs.map((port) => (
            <PortRow key={port.name} node={id} port={port} kind="target" isPlain={isPlain} />
          ))}
        </div>
        <div className={classes.outputs}>
          {ports.outputs.map((port) => (
            <PortRow
              key={port.name}
              node={id}
              port={port}
              kind="source"
              isPlain={isPlain}
              columns={state?.outputs[port.name]?.columns ?? null}
            />
          ))}
        </div>
      </div>
      {hasDetails && !isReadOnly && ports.outputs[0] !== undefined && (
        <AddNext node={id} port={ports.outputs[0].name} />
      )}
    </div>
  );
}, isSameBox);

/** Where the box is and how large is the canvas's business. */
function isSameBox(one: NodeProps, other: NodeProps): boolean {
  return one.id === other.id && one.selected === other.selected;
}

interface PortRowProps {
  readonly node: string;
  readonly port: Port;
  readonly kind: 'source' | 'target';
  /** The port alone, without its name. */
  readonly isPlain: boolean;
  /** What leaves an output, where that is known. */
  readonly columns?: Facts['columns'];
  /** Where the port is one of a collapsed group: its id there, and its name. */
  readonly handle?: string;
  readonly name?: string;
}

export function PortRow({ node, port, kind, isPlain, columns, handle, name }: PortRowProps) {
  const refused = useRefusal(node, port.name, kind);
  const known = (columns ?? []).map((each) => `${each.name}: ${each.type}`).join('\n');
  const label = name ?? (port.label === '' ? port.name : port.label);
  return (
    <div className={classes.port} data-kind={kind} data-refused={refused !== null || undefined}>
      <Handle
        id={handle ?? port.name}
        type={kind}
        position={kind === 'source' ? Position.Right : Position.Left}
        className={classes.handle ?? ''}
        title={refused ?? [label, port.help, known].filter(Boolean).join('\n')}
        aria-hidden
      />
      {!isPlain && <span className={classes.portName}>{label}</span>}
    </div>
  );
}

/** Why the connection that is being drawn cannot end here; null if it can, or if none is drawn. */
function useRefusal(node: string, port: string, kind: 'source' | 'target'): string | null {
  const store = useEditorStore();
  const from = useContext(ConnectingFrom);
  if (from?.id === null || from?.id === undefined) return null;
  const [fromNode, fromPort] = realEnd([from.nodeId, from.id]);
  if (fromNode === node && fromPort === port && from.type === kind) return null;
  if (from.type === kind) return kind === 'source' ? t('Both ends are outputs') : t('Both ends are inputs');
  const state = store.getState();
  const ends = [
    [fromNode, fromPort],
    [node, port],
  ] as const;
  const [output, input] = kind === 'target' ? ends : [ends[1], ends[0]];
  return refusal(
    documentOf(state),
    output,
    input,
    (id) => portsOfNode(state, id),
    (from) => factsOf(state, from),
  );
}

function AddNext({ node, port }: { readonly node: string; readonly port: string }) {
  const store = useEditorStore();
  return (
    <button
      type="button"
      className={`nodrag ${classes.addNext ?? ''}`}
      tabIndex={-1}
      title={t('Add a node behind this one')}
      aria-label={t('Add a node behind this one')}
      onClick={(event) => {
        event.stopPropagation();
        const { right, top } = event.currentTarget.getBoundingClientRect();
        store.getState().openQuickAdd({ screen: { x: right + 12, y: top - 8 }, from: [node, port] });
      }}
    >
      <IconPlus size={13} stroke={2.4} aria-hidden />
    </button>
  );
}
