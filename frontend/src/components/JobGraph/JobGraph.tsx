/** The live graph of a job: vertices with their load, edges with their rates, and a legend. */

import { useCallback, useMemo } from 'react';

import type { Vertex } from '../../gen/live';
import { useTimes } from '../../hooks/useTimes';
import { likelyBottleneck } from '../../model/backPressure';
import { loadColour } from '../../model/colour';
import { NOTHING, formatDuration, formatRate } from '../../model/format';
import { type GraphEdge, edgeRate, topologyOfVertices } from '../../model/graph';
import { GraphCanvas } from '../GraphCanvas/GraphCanvas';
import { LoadBar } from '../LoadBar/LoadBar';
import { StateBadge } from '../StateBadge/StateBadge';
import classes from './JobGraph.module.css';

const SIZE = { width: 324, height: 158, edgeGap: 136 };

interface Props {
  readonly vertices: readonly Vertex[];
  readonly selected: string | null;
  readonly onSelect: (id: string) => void;
  /** Width covered at the right of the window, in px. */
  readonly coveredRight: number;
}

export function JobGraph({ vertices, selected, onSelect, coveredRight }: Props) {
  const byId = useMemo(() => new Map(vertices.map((vertex) => [vertex.id, vertex])), [vertices]);
  const topology = useMemo(() => topologyOfVertices(vertices), [vertices]);
  const bottleneck = likelyBottleneck(vertices)?.id;
  const rateOf = useCallback((edge: GraphEdge) => edgeRate(edge, byId, topology.edges), [byId, topology]);
  const renderNode = useCallback(
    (id: string) => {
      const vertex = byId.get(id);
      return vertex === undefined ? null : (
        <VertexNode vertex={vertex} isSelected={id === selected} isBottleneck={id === bottleneck} onSelect={onSelect} />
      );
    },
    [byId, selected, bottleneck, onSelect],
  );
  const renderEdge = useCallback(
    (edge: GraphEdge) => {
      const rate = rateOf(edge);
      return (
        <span className={classes.edge}>
          <span className={classes.strategy}>{edge.shipStrategy}</span>
          <span className={`tm-live ${classes.rate ?? ''}`}>{rate === null ? NOTHING : formatRate(rate)}</span>
        </span>
      );
    },
    [rateOf],
  );
  const isFlowing = useCallback((edge: GraphEdge) => (rateOf(edge) ?? 0) > 0, [rateOf]);
  const nodeColour = useCallback(
    (id: string) => {
      const vertex = byId.get(id);
      return vertex?.state === 'RUNNING' ? loadColour(vertex.metrics) : 'var(--tm-border-strong)';
    },
    [byId],
  );
  return (
    <>
      <GraphCanvas
        topology={topology}
        size={SIZE}
        selected={selected}
        coveredRight={coveredRight}
        label="Job graph"
        renderNode={renderNode}
        renderEdge={renderEdge}
        isFlowing={isFlowing}
        nodeColour={nodeColour}
      />
      <Legend />
    </>
  );
}

interface VertexNodeProps {
  readonly vertex: Vertex;
  readonly isSelected: boolean;
  readonly isBottleneck: boolean;
  readonly onSelect: (id: string) => void;
}

function VertexNode({ vertex, isSelected, isBottleneck, onSelect }: VertexNodeProps) {
  const times = useTimes();
  const { metrics } = vertex;
  const isRunning = vertex.state === 'RUNNING';
  return (
    <div
      className={classes.node}
      style={{ width: SIZE.width, height: SIZE.height }}
      data-selected={isSelected || undefined}
    >
      <span
        className={`tm-live ${classes.load ?? ''}`}
        style={{ background: isRunning ? loadColour(metrics) : 'var(--tm-border-strong)' }}
        aria-hidden
      />
      <span className={classes.top}>
        <button
          type="button"
          className={classes.name}
          title={vertex.name}
          aria-pressed={isSelected}
          onClick={() => onSelect(vertex.id)}
        >
          {vertex.name}
        </button>
        <span className={classes.parallelism} title={`Parallelism: ${vertex.parallelism}`}>
          ×{vertex.parallelism}
        </span>
      </span>
      <span className={classes.row}>
        <StateBadge state={vertex.state} plain />
        {isBottleneck && <span className={classes.bottleneck}>likely bottleneck</span>}
      </span>
      <span className={`tm-live ${classes.rates ?? ''}`}>
        <span className={classes.label}>Received</span>
        <span className={classes.number}>{formatRate(metrics.records_in_per_second)}</span>
        <span className={classes.label}>Sent</span>
        <span className={classes.number}>{formatRate(metrics.records_out_per_second)}</span>
      </span>
      <LoadBar metrics={metrics} isRunning={isRunning} />
      <span className={classes.watermark}>
        <span className={classes.label}>Low Watermark</span>
        <span>{times.watermark(metrics.watermark)}</span>
        {metrics.watermark_lag !== null && (
          <span className={classes.lag}>
            <span className={classes.label}>Lag</span> {formatDuration(metrics.watermark_lag)}
          </span>
        )}
      </span>
    </div>
  );
}

const LEGEND = [
  ['Busy', 'var(--tm-busy)'],
  ['Backpressured', 'var(--tm-back-pressured)'],
  ['Idle', 'var(--tm-idle)'],
] as const;

function Legend() {
  return (
    <div className={classes.legend}>
      {LEGEND.map(([name, colour]) => (
        <span key={name} className={classes.key}>
          <span className={classes.swatch} style={{ background: colour }} aria-hidden />
          {name}
        </span>
      ))}
      <span className={classes.hint}>
        Share of time of the most busy and most backpressured subtask · Received, Sent: records per second
      </span>
    </div>
  );
}
