/** The live graph of a job: vertices with their load, edges with their rates, and a legend. */

import type { MiniMapNodeProps } from '@xyflow/react';
import { memo, useCallback, useMemo } from 'react';

import type { EdgeMetrics } from '../../gen/contract';
import { useBehind, useJobPart, useLiveLag, useMetrics, useVertex, useVertices } from '../../hooks/useJob';
import { useRole } from '../../hooks/useSession';
import { useTimes } from '../../hooks/useTimes';
import { mayOperate } from '../../model/access';
import { LOAD_NAME, type LoadKind, loadColour } from '../../model/colour';
import { edgeText, flowAt } from '../../model/edgeText';
import { NOTHING, formatBytes, formatDuration, formatRate } from '../../model/format';
import { type GraphEdge, topologyOfVertices } from '../../model/graph';
import { metricsOfEdge } from '../../model/job';
import { isTerminal } from '../../model/states';
import { t } from '../../texts/t';
import { GraphCanvas, Line } from '../GraphCanvas/GraphCanvas';
import { LoadBar } from '../LoadBar/LoadBar';
import { LoadMark } from '../LoadBar/LoadMark';
import { PeekLink } from '../PeekLink/PeekLink';
import { StateBadge } from '../StateBadge/StateBadge';
import classes from './JobGraph.module.css';

const SIZE = { width: 346, height: 158, edgeGap: 136 };

interface Props {
  readonly selected: string | null;
  readonly onSelect: (id: string) => void;
  /** Width covered at the right of the window, in px. */
  readonly coveredRight: number;
}

export function JobGraph({ selected, onSelect, coveredRight }: Props) {
  const vertices = useVertices();
  const topology = useMemo(() => topologyOfVertices(vertices), [vertices]);
  const renderNode = useCallback(
    (id: string) => <VertexNode id={id} isSelected={id === selected} onSelect={onSelect} />,
    [selected, onSelect],
  );
  const mayPeek = mayOperate(useRole());
  const renderEdge = useCallback((edge: GraphEdge) => <EdgeLabel edge={edge} mayPeek={mayPeek} />, [mayPeek]);
  return (
    <>
      <GraphCanvas
        topology={topology}
        size={SIZE}
        selected={selected}
        coveredRight={coveredRight}
        label={t('Job graph')}
        renderNode={renderNode}
        renderEdge={renderEdge}
        renderLine={renderLine}
        MapNode={MapNode}
      />
      <Legend />
    </>
  );
}

const renderLine = (edge: GraphEdge, path: string) => <EdgeLine edge={edge} path={path} />;

interface EdgeLabelProps {
  readonly edge: GraphEdge;
  /** Whether the user may look at its rows. */
  readonly mayPeek: boolean;
}

export function EdgeLabel({ edge, mayPeek }: EdgeLabelProps) {
  const source = useVertex(edge.source)?.name ?? '';
  const reader = useVertex(edge.target);
  const target = reader?.name ?? '';
  const measured = useJobPart((job) => metricsOfEdge(job, edge.edge));
  // nobody reads what lay there when the vertex ended
  const isOver = reader !== undefined && isTerminal(reader.state);
  const metrics = measured && isOver ? { ...measured, queued_bytes: 0, queued_buffers: 0 } : measured;
  const queued = metrics?.queued_bytes ?? 0;
  return (
    <span className={classes.edge} title={metrics && textOf(metrics)}>
      <span className={classes.strategy}>{edge.shipStrategy}</span>
      <span className={`tm-live ${classes.rate ?? ''}`}>
        {metrics === undefined ? NOTHING : formatRate(metrics.records_per_second)}
      </span>
      {queued > 0 && <span className={classes.queue}>{t('{queued} queued', { queued: formatBytes(queued) })}</span>}
      {mayPeek && edge.edge !== undefined && (
        <PeekLink vertex={edge.target} edge={edge.edge} label={`${source} → ${target}`} />
      )}
    </span>
  );
}

function textOf(metrics: EdgeMetrics): string {
  return edgeText({
    records: metrics.records_sent,
    bytesPerSecond: metrics.bytes_per_second,
    queuedBytes: metrics.queued_bytes,
    queuedBuffers: metrics.queued_buffers,
  });
}

function EdgeLine({ edge, path }: { readonly edge: GraphEdge; readonly path: string }) {
  const flow = useJobPart((job) => flowAt(job.now, metricsOfEdge(job, edge.edge)?.records_per_second ?? 0));
  return <Line path={path} flow={flow} />;
}

/** By the load; grey unless it runs. */
function useColour(id: string): string {
  const metrics = useMetrics(id);
  const isRunning = useVertex(id)?.state === 'RUNNING';
  return isRunning && metrics !== undefined ? loadColour(metrics) : 'var(--tm-border-strong)';
}

function MapNode({ id, x, y, width, height, borderRadius }: MiniMapNodeProps) {
  const fill = useColour(id);
  return <rect x={x} y={y} width={width} height={height} rx={borderRadius} style={{ fill }} />;
}

interface VertexNodeProps {
  readonly id: string;
  readonly isSelected: boolean;
  readonly onSelect: (id: string) => void;
}

export const VertexNode = memo(function VertexNode({ id, isSelected, onSelect }: VertexNodeProps) {
  const times = useTimes();
  const vertex = useVertex(id);
  const metrics = useMetrics(id);
  // of an unknown cause the vertex is the one that waits
  const isBottleneck = useJobPart(({ derived: { causes } }) => {
    return causes?.limit?.vertex === id && causes.limit.cause !== 'unknown';
  });
  const holdsWatermark = useJobPart(({ derived }) => derived.causes?.watermark?.vertex === id);
  const colour = useColour(id);
  if (vertex === undefined || metrics === undefined) return null;
  return (
    <div
      className={classes.node}
      style={{ width: SIZE.width, height: SIZE.height }}
      data-selected={isSelected || undefined}
    >
      <span className={`tm-live ${classes.load ?? ''}`} style={{ background: colour }} aria-hidden />
      <span className={classes.top}>
        <button
          type="button"
          className={classes.name}
          title={vertex.name}
          aria-pressed={isSelected}
          onClick={() => onSelect(id)}
        >
          {vertex.name}
        </button>
        <span
          className={classes.parallelism}
          title={t('Parallelism: {parallelism}', { parallelism: vertex.parallelism })}
        >
          ×{vertex.parallelism}
        </span>
      </span>
      <span className={classes.row}>
        <StateBadge state={vertex.state} plain />
        {isBottleneck && <span className={`tm-live ${classes.bottleneck ?? ''}`}>{t('bottleneck')}</span>}
        {holdsWatermark && <span className={`tm-live ${classes.bottleneck ?? ''}`}>{t('holds the watermark')}</span>}
      </span>
      <span className={`tm-live ${classes.rates ?? ''}`}>
        <span className={classes.label}>{t('Received')}</span>
        <span className={classes.number}>{formatRate(metrics.records_in_per_second)}</span>
        <span className={classes.label}>{t('Sent')}</span>
        <span className={classes.number}>{formatRate(metrics.records_out_per_second)}</span>
        <StateSize bytes={metrics.state_size} />
      </span>
      <LoadBar metrics={metrics} isRunning={vertex.state === 'RUNNING'} />
      <span className={classes.watermark}>
        <span className={classes.label}>{t('Low Watermark')}</span>
        <span>{times.watermark(metrics.watermark)}</span>
        <Lag id={id} />
      </span>
    </div>
  );
});

/** Nothing where there is no state. */
export function StateSize({ bytes }: { readonly bytes: number | null }) {
  if (bytes === null || bytes === 0) return null;
  return (
    <>
      <span className={classes.label} title={t('In the latest completed checkpoint or savepoint')}>
        {t('State')}
      </span>
      <span className={classes.number}>{formatBytes(bytes)}</span>
    </>
  );
}

/** Apart from its node: it grows with the clock. */
function Lag({ id }: { readonly id: string }) {
  return <Lateness lag={useLiveLag(id)} behind={useBehind(id)} />;
}

interface LatenessProps {
  /** ms behind the clock; null unless sources are live. */
  readonly lag: number | null;
  /** ms of event time behind the newest watermark; null: unknown. */
  readonly behind: number | null;
}

export function Lateness({ lag, behind }: LatenessProps) {
  // of replayed data the distance to the clock is only its age
  const [name, ms] = lag === null ? [t('Behind'), behind] : [t('Lag'), lag];
  if (ms === null || (lag === null && ms === 0)) return null;
  return (
    <span className={classes.lag}>
      <span className={classes.label}>{name}</span> {formatDuration(ms)}
    </span>
  );
}

const LEGEND: readonly LoadKind[] = ['busy', 'backPressured', 'idle'];

export function Legend() {
  return (
    <div className={classes.legend}>
      {LEGEND.map((kind) => (
        <span key={kind} className={classes.key}>
          <LoadMark kind={kind} />
          {LOAD_NAME[kind]}
        </span>
      ))}
      <span className={classes.hint}>
        {t('Share of time of the most busy and most backpressured subtask · Received, Sent: records per second')}
      </span>
    </div>
  );
}
