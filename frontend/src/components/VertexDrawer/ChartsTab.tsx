/** Charts of a vertex, or of one of its edges, over the last minutes or hours: the server's history, which goes on live. */

import { SegmentedControl, Select, Skeleton } from '@mantine/core';
import type { ReactNode } from 'react';

import { type History, useEdgeHistory, useVertexHistory } from '../../hooks/useHistory';
import { useJob, useVertices } from '../../hooks/useJob';
import { useQueryParam } from '../../hooks/useQueryParam';
import {
  formatByteRate,
  formatBytes,
  formatCount,
  formatDuration,
  formatRate,
  formatShare,
  formatTimes,
} from '../../model/format';
import { topologyOfVertices } from '../../model/graph';
import { WINDOWS, isLive, niceBytes, niceCount, niceDuration, speedsOf, windowOf } from '../../model/history';
import { type Series, TimeChart } from '../TimeChart/TimeChart';
import classes from './VertexDrawer.module.css';

const OUTDATED = 'What this page has not seen itself may be missing since it last did.';
const ONLY_SEEN = 'Only what was seen since this page was opened is shown.';
const GONE = 'Nothing is kept of this time: a job that has ended keeps its history for a day.';
/** Where the charts are of the vertex itself. */
const ITSELF = '';

interface Props {
  readonly jobId: string;
  readonly vertexId: string;
}

export function ChartsTab({ jobId, vertexId }: Props) {
  const [param, setWindow] = useQueryParam('window');
  const [edgeParam, setEdge] = useQueryParam('edge');
  const edges = useEdges(vertexId);
  const edge = edges.some(({ value }) => value === edgeParam) ? edgeParam : null;
  const { end_time: end } = useJob();
  const { name, ms } = windowOf(param);
  const asked = { jobId, id: edge ?? vertexId, windowMs: ms, end: end < 0 ? undefined : end };
  return (
    <div className={classes.charts}>
      <div className={classes.window}>
        <SegmentedControl
          size="xs"
          aria-label="Time Range"
          value={name}
          onChange={(value) => setWindow(value === WINDOWS[0].name ? null : value)}
          data={WINDOWS.map((each) => ({ value: each.name, label: each.label }))}
        />
        {edges.length > 0 && (
          <Select
            size="xs"
            aria-label="Charts of"
            allowDeselect={false}
            data={[{ value: ITSELF, label: 'This vertex' }, ...edges]}
            value={edge ?? ITSELF}
            onChange={(value) => setEdge(value === ITSELF ? null : value)}
          />
        )}
      </div>
      {edge === null ? <VertexCharts key={vertexId} {...asked} /> : <EdgeCharts key={edge} {...asked} />}
    </div>
  );
}

/** The edges of a vertex that have figures. */
function useEdges(vertexId: string): readonly { readonly value: string; readonly label: string }[] {
  const vertices = useVertices();
  const names = new Map(vertices.map(({ id, name }) => [id, name]));
  const sides = topologyOfVertices(vertices).edges.flatMap(({ source, target, edge, shipStrategy }) => {
    if (edge === undefined || (source !== vertexId && target !== vertexId)) return [];
    const [side, other] = target === vertexId ? ['from', source] : ['to', target];
    return [{ value: edge, label: `Edge ${side} ${names.get(other) ?? other} · ${shipStrategy}` }];
  });
  return sides.toSorted(
    (one, other) => Number(one.label.startsWith('Edge to')) - Number(other.label.startsWith('Edge to')),
  );
}

type Asked = Parameters<typeof useVertexHistory>[0];

function VertexCharts(asked: Asked) {
  const history = useVertexHistory(asked);
  const { samples, kept } = history;
  const shown = shownOf(history, asked);
  const keptShown = { ...shown, times: kept.map(({ time }) => time) };
  const column = columnOf(samples);
  const keptColumn = columnOf(kept);
  return (
    <Shown history={history} end={asked.end}>
      <TimeChart
        {...shown}
        title="Records per Second"
        format={formatRate}
        series={[column('Received', (s) => s.recordsIn), column('Sent', (s) => s.recordsOut)]}
      />
      <TimeChart
        {...shown}
        title="Busy / Backpressured / Idle"
        format={formatShare}
        top={1000}
        series={[
          column('Busy', (s) => s.busy),
          column('Backpressured', (s) => s.backPressured),
          column('Idle', (s) => s.idle),
        ]}
      />
      <TimeChart
        {...shown}
        title="Bytes per Second"
        format={formatByteRate}
        ceilingOf={niceBytes}
        series={[column('Received', (s) => s.bytesIn), column('Sent', (s) => s.bytesOut)]}
      />
      {samples.some(({ lag }) => lag !== null) && (
        <TimeChart
          {...shown}
          title="Watermark Lag"
          format={formatDuration}
          ceilingOf={niceDuration}
          series={[column('Lag', (s) => s.lag)]}
        />
      )}
      {!isLive(samples) && samples.some(({ behind }) => behind !== null) && (
        // of old data the distance to the clock is only its age
        <>
          <TimeChart
            {...shown}
            title="Behind the Newest Watermark"
            format={formatDuration}
            ceilingOf={niceDuration}
            series={[column('Behind', (s) => s.behind)]}
          />
          <TimeChart
            {...shown}
            title="Event Time per Real Time"
            format={formatTimes}
            series={[{ name: 'Speed', values: speedsOf(samples) }]}
          />
        </>
      )}
      {kept.some(({ pending }) => pending !== null) && (
        <TimeChart
          {...keptShown}
          title="Pending Records"
          format={formatCount}
          ceilingOf={niceCount}
          series={[keptColumn('Pending', (s) => s.pending)]}
        />
      )}
      {kept.some(({ late }) => late !== null && late > 0) && (
        <TimeChart
          {...keptShown}
          title="Late Records Dropped per Second"
          format={formatRate}
          series={[keptColumn('Late', (s) => s.late)]}
        />
      )}
      {kept.some(({ stateSize }) => stateSize !== null) && (
        <TimeChart
          {...keptShown}
          title="State Size in the Latest Checkpoint"
          format={formatBytes}
          ceilingOf={niceBytes}
          series={[keptColumn('State', (s) => s.stateSize)]}
        />
      )}
    </Shown>
  );
}

function EdgeCharts(asked: Asked) {
  const history = useEdgeHistory(asked);
  const shown = shownOf(history, asked);
  const column = columnOf(history.samples);
  return (
    <Shown history={history} end={asked.end}>
      <TimeChart
        {...shown}
        title="Records per Second"
        format={formatRate}
        series={[column('Sent', (s) => s.records)]}
      />
      <TimeChart
        {...shown}
        title="Bytes per Second"
        format={formatByteRate}
        ceilingOf={niceBytes}
        series={[column('Sent', (s) => s.bytes)]}
      />
      <TimeChart
        {...shown}
        title="Queued"
        format={formatBytes}
        ceilingOf={niceBytes}
        series={[column('Queued', (s) => s.queuedBytes)]}
      />
      <TimeChart
        {...shown}
        title="Queued Buffers"
        format={formatCount}
        ceilingOf={niceCount}
        series={[column('Buffers', (s) => s.queuedBuffers)]}
      />
    </Shown>
  );
}

function shownOf({ samples, marks }: History<{ readonly time: number }>, { windowMs }: Asked) {
  return { times: samples.map(({ time }) => time), windowMs, marks };
}

function columnOf<S>(samples: readonly S[]) {
  return (name: string, of: (sample: S) => number | null): Series => ({ name, values: samples.map(of) });
}

interface ShownProps {
  readonly history: History<unknown>;
  /** Of the job; undefined while it goes on. */
  readonly end: number | undefined;
  readonly children: ReactNode;
}

function Shown({ history: { samples, isPending, problem, hasEarlier }, end, children }: ShownProps) {
  const isGone = end !== undefined && hasEarlier && samples.length === 0;
  return (
    <>
      <span role="status" className="tm-dim">
        {problem === null ? isGone && GONE : `${problem} ${hasEarlier ? OUTDATED : ONLY_SEEN}`}
      </span>
      {isPending && samples.length === 0 ? <Skeleton height={480} radius={10} /> : !isGone && children}
    </>
  );
}
