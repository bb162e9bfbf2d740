/** The pipeline that a job was drawn as, with the figures of the job on its nodes and edges; a click leads to the vertex. */

import { Skeleton } from '@mantine/core';
import type { MiniMapNodeProps } from '@xyflow/react';
import { type ReactNode, createContext, memo, useCallback, useContext, useMemo } from 'react';
import { Link } from 'react-router';
import { useShallow } from 'zustand/react/shallow';

import type { JobPipeline, LiveJob } from '../../gen/contract';
import { useJobPart, useOperatorsArrival, useOperatorsPart } from '../../hooks/useJob';
import { type JobProgram, useJobProgram } from '../../hooks/useJobPipeline';
import { useRole } from '../../hooks/useSession';
import { useTimes } from '../../hooks/useTimes';
import { mayOperate } from '../../model/access';
import { loadColour } from '../../model/colour';
import { edgeText, flowAt } from '../../model/edgeText';
import { formatBytes, formatCount, formatRate } from '../../model/format';
import type { GraphEdge } from '../../model/graph';
import { type PipelineDocument, nameOf } from '../../model/pipeline/document';
import { type Trouble, troubleReader } from '../../model/pipeline/failures';
import { placesOfPipeline, topologyOfPipeline } from '../../model/pipeline/picture';
import {
  type EdgeFlow,
  type NodeFigures,
  type RunningNode,
  type RunningPipeline,
  figuresOfNode,
  flowOf,
  latenessOf,
  runningPipeline,
} from '../../model/pipeline/running';
import { plural, t } from '../../texts/t';
import { FailureState } from '../EmptyState/EmptyState';
import { GraphCanvas, Line } from '../GraphCanvas/GraphCanvas';
import { Lateness, Legend, StateSize } from '../JobGraph/JobGraph';
import look from '../JobGraph/JobGraph.module.css';
import { LoadBar } from '../LoadBar/LoadBar';
import { PeekLink } from '../PeekLink/PeekLink';
import { StateBadge } from '../StateBadge/StateBadge';
import classes from './DrawnJob.module.css';

const SIZE = { width: 320, height: 158, edgeGap: 136 };
const NO_TROUBLE: Trouble = { failures: 0, stalls: 0 };

interface Drawn {
  readonly document: PipelineDocument;
  readonly running: RunningPipeline;
  readonly troubles: (moving: LiveJob['moving']) => ReadonlyMap<string, Trouble>;
}

const DrawnContext = createContext<Drawn | null>(null);

/** Its value stays the same for as long as the job is shown. */
export const DrawnProvider = DrawnContext.Provider;

function useDrawn(): Drawn {
  const drawn = useContext(DrawnContext);
  if (drawn === null) throw new Error('outside of a DrawnProvider');
  return drawn;
}

/** What is known of a drawn job beside its figures. */
export function drawnOf({ document, lines }: JobProgram, drawn: JobPipeline, fixed: LiveJob['static']): Drawn {
  return {
    document,
    running: runningPipeline(document, drawn, fixed),
    troubles: troubleReader(drawn.version, lines),
  };
}

interface Props {
  readonly drawn: JobPipeline;
  /** Id of a vertex. */
  readonly selected: string | null;
  readonly onSelect: (vertex: string) => void;
  /** Width covered at the right of the window, in px. */
  readonly coveredRight: number;
}

export function DrawnJob({ drawn, ...rest }: Props) {
  const { program, error } = useJobProgram(drawn, true);
  if (error !== null) return <FailureState title={t('The pipeline cannot be shown')} message={error} />;
  if (program === null) return <Skeleton height={320} role="status" aria-busy="true" aria-label={t('Loading')} />;
  return <Picture drawn={drawn} program={program} {...rest} />;
}

function Picture({ drawn, program, selected, onSelect, coveredRight }: Props & { readonly program: JobProgram }) {
  useOperatorsArrival();
  const fixed = useJobPart((job) => job.static);
  const known = useMemo(() => drawnOf(program, drawn, fixed), [program, drawn, fixed]);
  const topology = useMemo(() => topologyOfPipeline(program.document, drawn.outputs), [program, drawn]);
  const places = useMemo(() => placesOfPipeline(program.document, SIZE), [program]);
  const isSelected = useCallback(
    (id: string) => selected !== null && known.running.nodes.get(id)?.vertices.includes(selected) === true,
    [known, selected],
  );
  const renderNode = useCallback(
    (id: string) => <DrawnNode id={id} isSelected={isSelected(id)} onSelect={onSelect} />,
    [isSelected, onSelect],
  );
  const mayPeek = mayOperate(useRole());
  const renderEdge = useCallback((edge: GraphEdge) => <DrawnEdge edge={edge} mayPeek={mayPeek} />, [mayPeek]);
  const first = topology.nodes.find(({ id }) => isSelected(id));
  return (
    <DrawnProvider value={known}>
      <GraphCanvas
        topology={topology}
        size={SIZE}
        places={places?.positions ?? null}
        {...(places !== null && { backdrops: places.backdrops })}
        selected={first?.id ?? null}
        coveredRight={coveredRight}
        label={t('Pipeline')}
        renderNode={renderNode}
        renderEdge={renderEdge}
        renderLine={renderLine}
        MapNode={MapNode}
      />
      <Legend />
    </DrawnProvider>
  );
}

const renderLine = (edge: GraphEdge, path: string) => <FlowLine edge={edge} path={path} />;

/** Null: unknown. */
function useFlow(id: string): EdgeFlow | null {
  const edge = useDrawn().running.edges.get(id);
  return useOperatorsPart(useShallow((job) => (edge === undefined ? null : flowOf(job, edge))));
}

interface EdgeProps {
  readonly edge: GraphEdge;
  /** Whether the user may look at its rows. */
  readonly mayPeek: boolean;
}

export function DrawnEdge({ edge, mayPeek }: EdgeProps) {
  const { document, running } = useDrawn();
  const place = running.edges.get(edge.id)?.peek;
  const flow = useFlow(edge.id);
  if (flow === null)
    return edge.shipStrategy === '' ? null : <span className={look.strategy}>{edge.shipStrategy}</span>;
  const queued = flow.queuedBytes ?? 0;
  return (
    <span className={look.edge} title={edgeText(flow)}>
      {edge.shipStrategy !== '' && <span className={look.strategy}>{edge.shipStrategy}</span>}
      <span className={`tm-live ${look.rate ?? ''}`}>{formatRate(flow.perSecond)}</span>
      {queued > 0 && <span className={look.queue}>{t('{queued} queued', { queued: formatBytes(queued) })}</span>}
      {mayPeek && place != null && (
        <PeekLink
          vertex={place.vertex}
          edge={place.key}
          label={`${nameOf(document, edge.source)} → ${nameOf(document, edge.target)}`}
        />
      )}
    </span>
  );
}

function FlowLine({ edge, path }: { readonly edge: GraphEdge; readonly path: string }) {
  const running = useDrawn().running.edges.get(edge.id);
  const flow = useOperatorsPart((job) =>
    flowAt(job.now, running === undefined ? 0 : (flowOf(job, running)?.perSecond ?? 0)),
  );
  return <Line path={path} flow={flow} />;
}

function colourOf({ state, ...load }: NodeFigures): string {
  return state === 'RUNNING' ? loadColour(load) : 'var(--tm-border-strong)';
}

function MapNode({ id, x, y, width, height, borderRadius }: MiniMapNodeProps) {
  const node = useDrawn().running.nodes.get(id);
  const fill = useOperatorsPart((job) =>
    node === undefined ? 'var(--tm-border-strong)' : colourOf(figuresOfNode(job, node)),
  );
  return <rect x={x} y={y} width={width} height={height} rx={borderRadius} style={{ fill }} />;
}

interface NodeProps {
  readonly id: string;
  readonly isSelected: boolean;
  /** Gets the id of a vertex. */
  readonly onSelect: (vertex: string) => void;
}

export const DrawnNode = memo(function DrawnNode({ id, isSelected, onSelect }: NodeProps) {
  const { document, running } = useDrawn();
  const node = running.nodes.get(id);
  const name = nameOf(document, id);
  if (node !== undefined) return <RunningBox {...{ id, name, node, isSelected, onSelect }} />;
  return (
    <Box title={name} isSelected={false}>
      <span className={classes.name}>{name}</span>
      <span className={classes.note}>{t('Not part of the job')}</span>
    </Box>
  );
});

interface BoxProps {
  readonly title: string;
  readonly isSelected: boolean;
  readonly children: ReactNode;
}

function Box({ title, isSelected, children }: BoxProps) {
  return (
    <div
      className={look.node}
      style={{ width: SIZE.width, height: SIZE.height }}
      title={title}
      data-selected={isSelected || undefined}
    >
      {children}
    </div>
  );
}

function RunningBox({ id, name, node, isSelected, onSelect }: NodeProps & { name: string; node: RunningNode }) {
  const { troubles } = useDrawn();
  const times = useTimes();
  const figures = useOperatorsPart(
    useShallow((job) => ({ ...figuresOfNode(job, node), ...(troubles(job.moving).get(id) ?? NO_TROUBLE) })),
  );
  const [vertex] = node.vertices;
  const { state, parallelism, failures, stalls } = figures;
  return (
    <Box title={nodeText(name, node, figures)} isSelected={isSelected}>
      <span className={`tm-live ${look.load ?? ''}`} style={{ background: colourOf(figures) }} aria-hidden />
      <span className={look.top}>
        {vertex === undefined ? (
          <span className={classes.name}>{name}</span>
        ) : (
          <button type="button" className={look.name} aria-pressed={isSelected} onClick={() => onSelect(vertex)}>
            {name}
          </button>
        )}
        {parallelism !== null && <span className={look.parallelism}>×{parallelism}</span>}
      </span>
      <span className={look.row}>
        {state === null ? (
          <span className={classes.note}>{t('Passes records on')}</span>
        ) : (
          <StateBadge state={state} plain />
        )}
        {stalls > 0 && <Mark>{t('does not return')}</Mark>}
        {figures.isBottleneck && <Mark>{t('bottleneck')}</Mark>}
        {figures.holdsWatermark && <Mark>{t('holds the watermark')}</Mark>}
        {failures > 0 && (
          <Link className={`${look.bottleneck ?? ''} ${classes.failures ?? ''}`} to="?tab=exceptions">
            {plural(failures, '1 failure', '{count} failures')}
          </Link>
        )}
      </span>
      <span className={`tm-live ${look.rates ?? ''}`}>
        <span className={look.label}>{t('Received')}</span>
        <span className={look.number}>{formatRate(figures.received)}</span>
        <span className={look.label}>{t('Sent')}</span>
        <span className={look.number}>{formatRate(figures.sent)}</span>
        <StateSize bytes={figures.stateSize} />
      </span>
      {state !== null && <LoadBar metrics={figures} isRunning={state === 'RUNNING'} />}
      {figures.watermark !== null && (
        <span className={look.watermark}>
          <span className={look.label}>{t('Watermark')}</span>
          <span className={classes.watermark}>{times.watermark(figures.watermark)}</span>
          <NodeLateness node={node} />
        </span>
      )}
    </Box>
  );
}

function Mark({ children }: { readonly children: string }) {
  return <span className={`tm-live ${look.bottleneck ?? ''}`}>{children}</span>;
}

/** Apart from its node: it grows with the clock. */
function NodeLateness({ node }: { readonly node: RunningNode }) {
  return <Lateness {...useOperatorsPart(useShallow((job) => latenessOf(job, node)))} />;
}

function nodeText(name: string, { chainedWith }: RunningNode, { receivedSoFar, sentSoFar }: NodeFigures): string {
  const lines = [name];
  if (receivedSoFar !== null)
    lines.push(t('{receivedSoFar} records received', { receivedSoFar: formatCount(receivedSoFar) }));
  if (sentSoFar !== null) lines.push(t('{sentSoFar} records sent', { sentSoFar: formatCount(sentSoFar) }));
  // both are measured by task: who shares one with others shares them
  if (chainedWith.length > 0)
    lines.push(
      t('Load and state are those of the task that it shares with {chainedWith}', {
        chainedWith: chainedWith.join(', '),
      }),
    );
  return lines.join('\n');
}
