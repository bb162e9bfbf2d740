/** Two states of a pipeline on one canvas, with the fields that differ, and the difference of their programs. */

import '@xyflow/react/dist/style.css';

import { Button, Loader, SegmentedControl } from '@mantine/core';
import { IconArrowsMove, IconMinus, IconPencil, IconPlus, type Icon } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import {
  Background,
  Controls,
  type Edge,
  Handle,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
} from '@xyflow/react';
import { createContext, memo, useContext, useEffect, useMemo, useRef, useState } from 'react';

import { compile, fetchVersion } from '../../api/pipelines';
import { useEditor } from '../../hooks/useEditor';
import { typeOf } from '../../model/pipeline/catalog';
import { type Change, type Compared, type DocumentDiff, type Mark, countOf, diffOf } from '../../model/pipeline/diff';
import { type Json, type PipelineDocument, nameOf, positionOf } from '../../model/pipeline/document';
import { fieldWords } from '../../model/pipeline/forms';
import { textDiff, withContext } from '../../model/textDiff';
import { documentOf } from '../../store/editor';
import { plural, t } from '../../texts/t';
import { FailureState } from '../EmptyState/EmptyState';
import classes from './Compare.module.css';
import { TypeIcon, hueOf } from './icons';
import box from './NodeBox.module.css';

const ICONS: Record<Exclude<Mark, 'same'>, Icon> = {
  added: IconPlus,
  removed: IconMinus,
  changed: IconPencil,
  moved: IconArrowsMove,
};
const AROUND = 4;
const FIT = { padding: 0.2, maxZoom: 1 };

interface Props {
  /** "6..7" or "6..draft": numbers of versions, or what is drawn. */
  readonly sides: string;
  readonly onClose: () => void;
}

interface Side {
  readonly title: string;
  readonly document: PipelineDocument;
}

export function Compare({ sides, onClose }: Props) {
  const [before = '', after = ''] = sides.split('..');
  const one = useSide(before);
  const other = useSide(after);
  const error = one.error ?? other.error;
  if (error !== null) {
    return (
      <div className={classes.compare}>
        <FailureState title={t('The versions cannot be compared')} message={error} />
        <Button variant="default" onClick={onClose}>
          {t('Back to the pipeline')}
        </Button>
      </div>
    );
  }
  if (one.side === null || other.side === null)
    return <Loader role="status" aria-label={t('Reading the versions')} m="lg" />;
  return <Both before={one.side} after={other.side} onClose={onClose} />;
}

function useSide(name: string): { readonly side: Side | null; readonly error: string | null } {
  const id = useEditor((state) => state.pipelineId);
  const drawn = useEditor(documentOf);
  const isDrawn = name === 'draft';
  const { data, error } = useQuery({
    queryKey: ['pipeline-version', id, name],
    queryFn: () => fetchVersion(id, Number(name)),
    enabled: !isDrawn,
    staleTime: Infinity,
    retry: false,
  });
  return useMemo(() => {
    if (isDrawn) return { side: { title: t('what is drawn'), document: drawn }, error: null };
    const side =
      data === undefined ? null : { title: t('version {number}', { number: data.number }), document: data.document };
    return { side, error: error?.message ?? null };
  }, [isDrawn, drawn, data, error]);
}

interface BothProps {
  readonly before: Side;
  readonly after: Side;
  readonly onClose: () => void;
}

function Both({ before, after, onClose }: BothProps) {
  const diff = useMemo(() => diffOf(before.document, after.document), [before, after]);
  const [view, setView] = useState('canvas');
  const [chosen, setChosen] = useState<string | null>(null);
  const count = countOf(diff);
  const section = useRef<HTMLElement>(null);
  // what had the focus is hidden
  useEffect(() => section.current?.focus(), []);
  return (
    <section ref={section} className={classes.compare} tabIndex={-1} aria-label={t('Difference')}>
      <div className={classes.bar}>
        <h2>{t('From {before} to {after}', { before: before.title, after: after.title })}</h2>
        <span>{count === 0 ? t('nothing differs') : plural(count, '1 difference', '{count} differences')}</span>
        <span className={classes.spring} />
        <SegmentedControl
          size="xs"
          aria-label={t('Show')}
          value={view}
          onChange={setView}
          data={[
            { value: 'canvas', label: t('Canvas') },
            { value: 'python', label: t('Python') },
          ]}
        />
        <Button size="compact-sm" variant="default" onClick={onClose}>
          {t('Back to the pipeline')}
        </Button>
      </div>
      <ReactFlowProvider>
        <div className={classes.parts}>
          {view === 'canvas' ? (
            <Overlay before={before.document} after={after.document} diff={diff} chosen={chosen} />
          ) : (
            <Programs before={before.document} after={after.document} />
          )}
          <List
            before={before.document}
            after={after.document}
            diff={diff}
            onChoose={(id) => {
              setView('canvas');
              setChosen(id);
            }}
          />
        </div>
      </ReactFlowProvider>
    </section>
  );
}

// --- canvas ---------------------------------------------------------------------------------------------------------

interface Drawn {
  readonly before: PipelineDocument;
  readonly after: PipelineDocument;
  readonly diff: DocumentDiff;
  readonly chosen: string | null;
}

const Drawing = createContext<Drawn | null>(null);
const NODE_TYPES = { compared: memo(ComparedBox) };

function Overlay(drawn: Drawn) {
  const { before, after, diff } = drawn;
  const nodes = useMemo(
    () =>
      diff.nodes.map(({ id, mark }): Node => {
        const [x, y] = positionOf(mark === 'removed' ? before : after, id);
        return { id, type: 'compared', position: { x, y }, data: {}, draggable: false, selectable: false };
      }),
    [before, after, diff],
  );
  const edges = useMemo(
    () =>
      diff.edges.flatMap(({ id, mark }): Edge[] => {
        const edge = (mark === 'removed' ? before : after).edges[id];
        if (edge === undefined) return [];
        return [
          {
            id,
            source: edge.from[0],
            sourceHandle: edge.from[1],
            target: edge.to[0],
            targetHandle: edge.to[1],
            ...(mark === 'same' ? {} : { label: mark }),
            style: edgeStyle(mark),
          },
        ];
      }),
    [before, after, diff],
  );
  return (
    <div className={classes.canvas}>
      <Drawing value={drawn}>
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={NODE_TYPES}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          panOnScroll
          fitView
          fitViewOptions={FIT}
          minZoom={0.15}
          maxZoom={1.8}
          proOptions={{ hideAttribution: true }}
        >
          <Background gap={20} size={1.2} color="var(--tm-border-strong)" />
          <Controls orientation="horizontal" showInteractive={false} fitViewOptions={FIT} position="bottom-left" />
        </ReactFlow>
      </Drawing>
    </div>
  );
}

function edgeStyle(mark: Mark) {
  if (mark === 'added') return { stroke: 'var(--tm-running)', strokeWidth: 2.5 };
  if (mark === 'removed') return { stroke: 'var(--tm-failed)', strokeWidth: 2, strokeDasharray: '6 4' };
  return { stroke: mark === 'changed' ? 'var(--tm-trouble)' : 'var(--tm-border-strong)', strokeWidth: 1.5 };
}

function ComparedBox({ id }: NodeProps) {
  const drawn = useContext(Drawing);
  const catalog = useEditor((state) => state.catalog);
  if (drawn === null) return null;
  const { before, after, diff, chosen } = drawn;
  const mark = diff.nodes.find((each) => each.id === id)?.mark ?? 'same';
  const node = (mark === 'removed' ? before : after).nodes[id];
  if (node === undefined) return null;
  const type = typeOf(catalog, node.type);
  const edges = [...Object.values(before.edges), ...Object.values(after.edges)];
  const inputs = new Set(edges.flatMap(({ to }) => (to[0] === id ? [to[1]] : [])));
  const outputs = new Set(edges.flatMap(({ from }) => (from[0] === id ? [from[1]] : [])));
  return (
    <div className={classes.box} data-mark={mark} data-chosen={chosen === id || undefined}>
      {mark !== 'same' && (
        <span className={classes.tag}>
          <Sign mark={mark} />
        </span>
      )}
      <div className={box.top}>
        <span className={box.icon} data-hue={hueOf(type?.category ?? '')}>
          <TypeIcon name={type?.icon ?? ''} size={16} />
        </span>
        <span className={box.texts}>
          <span className={box.name}>{node.name}</span>
          <span className={box.summary}>{type?.title ?? node.type}</span>
        </span>
      </div>
      {[...inputs].map((port) => (
        <Handle key={port} id={port} type="target" position={Position.Left} className={classes.port ?? ''} />
      ))}
      {[...outputs].map((port) => (
        <Handle key={port} id={port} type="source" position={Position.Right} className={classes.port ?? ''} />
      ))}
    </div>
  );
}

function Sign({ mark }: { readonly mark: Exclude<Mark, 'same'> }) {
  const MarkIcon = ICONS[mark];
  return (
    <span className={classes.mark} data-mark={mark}>
      <MarkIcon size={12} stroke={2.4} aria-hidden />
      {mark}
    </span>
  );
}

// --- fields ---------------------------------------------------------------------------------------------------------

interface ListProps extends Omit<Drawn, 'chosen'> {
  readonly onChoose: (id: string) => void;
}

function List({ before, after, diff, onChoose }: ListProps) {
  const { setCenter } = useReactFlow();
  const nodes = diff.nodes.filter(({ mark }) => mark !== 'same');
  const edges = diff.edges.filter(({ mark }) => mark !== 'same');
  const nameOfEdge = ({ id, mark }: Compared) => {
    const document = mark === 'removed' ? before : after;
    const edge = document.edges[id];
    return edge === undefined ? id : `${nameOf(document, edge.from[0])} → ${nameOf(document, edge.to[0])}`;
  };
  const choose = ({ id, mark }: Compared) => {
    const [x, y] = positionOf(mark === 'removed' ? before : after, id);
    onChoose(id);
    void setCenter(x + 110, y + 30, { zoom: 1, duration: 200 });
  };
  return (
    <aside className={classes.list} aria-label={t('What differs')}>
      {nodes.length + edges.length + diff.settings.length === 0 && (
        <p className={classes.note}>{t('Both are the same.')}</p>
      )}
      {nodes.length > 0 && (
        <>
          <h3>{t('Nodes')}</h3>
          <ul className={classes.items}>
            {nodes.map((each) => (
              <li key={each.id} className={classes.item}>
                <button type="button" className={classes.head} onClick={() => choose(each)}>
                  {each.mark !== 'same' && <Sign mark={each.mark} />}
                  <span className="tm-break">{nameOf(each.mark === 'removed' ? before : after, each.id)}</span>
                </button>
                <Fields changes={each.changes} />
              </li>
            ))}
          </ul>
        </>
      )}
      {edges.length > 0 && (
        <>
          <h3>{t('Connections')}</h3>
          <ul className={classes.items}>
            {edges.map((each) => (
              <li key={each.id} className={classes.item}>
                <span className={classes.head}>
                  {each.mark !== 'same' && <Sign mark={each.mark} />}
                  <span className="tm-break">{nameOfEdge(each)}</span>
                </span>
                <Fields changes={each.changes} />
              </li>
            ))}
          </ul>
        </>
      )}
      {diff.settings.length > 0 && (
        <>
          <h3>{t('Pipeline')}</h3>
          <Fields changes={diff.settings} />
        </>
      )}
    </aside>
  );
}

function Fields({ changes }: { readonly changes: readonly Change[] }) {
  if (changes.length === 0) return null;
  return (
    <dl className={classes.fields}>
      {changes.map(({ pointer, before, after }) => (
        <div key={pointer} className={classes.field}>
          <dt>{fieldWords(pointer)}</dt>
          <dd>
            <Value mark="removed" value={before} />
            <Value mark="added" value={after} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Value({ mark, value }: { readonly mark: 'added' | 'removed'; readonly value: Json | undefined }) {
  if (value === undefined || value === null) return null;
  return (
    <span className={classes.value} data-mark={mark}>
      <span aria-hidden>{mark === 'added' ? '+' : '−'}</span>
      <span>
        <span className="tm-visually-hidden">{mark === 'added' ? t('now: ') : t('before: ')}</span>
        {valueText(value)}
      </span>
    </span>
  );
}

function valueText(value: Json): string {
  if (typeof value === 'string') return value;
  const isLines = Array.isArray(value) && value.length > 1 && value.every((each) => typeof each === 'string');
  return isLines ? value.join('\n') : JSON.stringify(value);
}

// --- Python ---------------------------------------------------------------------------------------------------------

const SIGNS = { same: ' ', added: '+', removed: '−' } as const;

function Programs({ before, after }: { readonly before: PipelineDocument; readonly after: PipelineDocument }) {
  const { data, error } = useQuery({
    queryKey: ['pipeline-programs', before, after],
    queryFn: ({ signal }) => Promise.all([compile(before, signal), compile(after, signal)]),
    gcTime: 30_000,
    retry: false,
  });
  const lines = useMemo(
    () => (data === undefined ? [] : withContext(textDiff(data[0].source, data[1].source), AROUND)),
    [data],
  );
  if (error !== null) return <FailureState title={t('The programs cannot be written')} message={error.message} />;
  if (data === undefined) return <p className={classes.note}>{t('Writing both programs…')}</p>;
  if (data[0].source === data[1].source) return <p className={classes.note}>{t('The programs are the same.')}</p>;
  return (
    <div className={classes.python} tabIndex={0} role="group" aria-label={t('Differences between the programs')}>
      {lines.map((line, index) =>
        line === null ? (
          <div key={index} className={classes.gap}>
            ⋯
          </div>
        ) : (
          <div key={index} className={classes.line} data-mark={line.mark}>
            <span aria-hidden>{line.before}</span>
            <span aria-hidden>{line.after}</span>
            <span>{SIGNS[line.mark]}</span>
            <span>{line.text}</span>
          </div>
        ),
      )}
    </div>
  );
}
