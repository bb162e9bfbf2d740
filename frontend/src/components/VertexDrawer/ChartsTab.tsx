/** Charts of a vertex, or of one of its edges, over the last minutes or hours: the server's history, which goes on live. */

import { MultiSelect, SegmentedControl, Select, Skeleton } from '@mantine/core';
import type { ReactNode } from 'react';

import { useChartChoice } from '../../hooks/useChartChoice';
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
import { type Series, alignedTo } from '../../model/chart';
import { LOAD_COLOUR } from '../../model/colour';
import { topologyOfVertices } from '../../model/graph';
import {
  type KeptSample,
  type Sample,
  WINDOWS,
  isLive,
  niceBytes,
  niceCount,
  niceDuration,
  speedsOf,
  windowOf,
} from '../../model/history';
import { t } from '../../texts/t';
import { SharedCursor, TimeChart } from '../TimeChart/TimeChart';
import { PickedCharts } from './PickedCharts';
import classes from './VertexDrawer.module.css';

const OUTDATED = t('What this page has not seen itself may be missing since it last did.');
const ONLY_SEEN = t('Only what was seen since this page was opened is shown.');
const GONE = t('Nothing is kept of this time: a job that has ended keeps its history for a day.');
/** More lines in a chart cannot be told apart; a hook for each, compared or not. */
const MAX_COMPARED = 3;
/** Of vertices that are compared, in the order of the choice. */
const DASHES = ['6 4', '2 3', '10 3 2 3'];
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
  const [choice, choose] = useChartChoice(jobId);
  const { name, ms } = windowOf(param ?? choice.window);
  const vertices = useVertices();
  const others = vertices.filter(({ id }) => id !== vertexId);
  const compared = choice.compare.filter((id) => others.some((other) => other.id === id)).slice(0, MAX_COMPARED);
  const asked = { jobId, id: edge ?? vertexId, windowMs: ms, end: end < 0 ? undefined : end };
  return (
    <div className={classes.charts}>
      <div className={classes.window}>
        <SegmentedControl
          size="xs"
          aria-label={t('Time Range')}
          value={name}
          onChange={(value) => {
            choose({ window: value });
            setWindow(value);
          }}
          data={WINDOWS.map((each) => ({ value: each.name, label: each.label }))}
        />
        {edges.length > 0 && (
          <Select
            size="xs"
            aria-label={t('Charts of')}
            allowDeselect={false}
            data={[{ value: ITSELF, label: t('This vertex') }, ...edges]}
            value={edge ?? ITSELF}
            onChange={(value) => setEdge(value === ITSELF ? null : value)}
          />
        )}
        {edge === null && others.length > 0 && (
          <MultiSelect
            size="xs"
            searchable
            clearable
            aria-label={t('Compare with')}
            placeholder={compared.length === 0 ? t('Compare with') : ''}
            maxValues={MAX_COMPARED}
            data={others.map(({ id, name: label }) => ({ value: id, label }))}
            value={[...compared]}
            onChange={(compare) => choose({ compare })}
          />
        )}
      </div>
      <SharedCursor>
        {edge === null ? (
          <>
            <VertexCharts key={vertexId} {...asked} compared={compared} />
            <Picked {...asked} vertexId={vertexId} choice={choice} onChoose={choose} />
          </>
        ) : (
          <EdgeCharts key={edge} {...asked} />
        )}
      </SharedCursor>
    </div>
  );
}

/** The edges of a vertex that have figures. */
function useEdges(vertexId: string): readonly { readonly value: string; readonly label: string }[] {
  const vertices = useVertices();
  const names = new Map(vertices.map(({ id, name }) => [id, name]));
  const sides = topologyOfVertices(vertices).edges.flatMap(({ source, target, edge, shipStrategy }) => {
    if (edge === undefined || (source !== vertexId && target !== vertexId)) return [];
    const isInput = target === vertexId;
    const other = isInput ? source : target;
    const words = { other: names.get(other) ?? other, shipStrategy };
    const label = isInput
      ? t('Edge from {other} · {shipStrategy}', words)
      : t('Edge to {other} · {shipStrategy}', words);
    return [{ value: edge, label, isInput }];
  });
  return sides.toSorted((one, other) => Number(other.isInput) - Number(one.isInput));
}

type Asked = Parameters<typeof useVertexHistory>[0];

function Picked({ jobId, vertexId, windowMs, end, choice, onChoose }: Asked & PickedProps) {
  const { marks } = useVertexHistory({ jobId, id: vertexId, windowMs, end });
  return (
    <PickedCharts
      key={vertexId}
      jobId={jobId}
      vertexId={vertexId}
      windowMs={windowMs}
      marks={marks}
      choice={choice}
      onChoose={onChoose}
      end={end}
    />
  );
}

type PickedProps = Pick<Parameters<typeof PickedCharts>[0], 'vertexId' | 'choice' | 'onChoose'>;

/** Vertices with their histories, for the same times: the page and the server take the samples of all at once. */
function useCompared(asked: Asked, compared: readonly string[]) {
  // the same query as the vertex itself where nothing is compared
  const [first = asked.id, second = asked.id, third = asked.id] = compared;
  const all = [
    useVertexHistory({ ...asked, id: first }),
    useVertexHistory({ ...asked, id: second }),
    useVertexHistory({ ...asked, id: third }),
  ];
  const names = new Map(useVertices().map(({ id, name }) => [id, name]));
  const nameOf = (id: string) => names.get(id) ?? id;
  return {
    own: nameOf(asked.id),
    others: compared.flatMap((id, index) => {
      const history = all[index];
      return history === undefined ? [] : [{ name: nameOf(id), dash: DASHES[index] ?? '', history }];
    }),
  };
}

function VertexCharts({ compared, ...asked }: Asked & { readonly compared: readonly string[] }) {
  const history = useVertexHistory(asked);
  const { own, others } = useCompared(asked, compared);
  const { samples, kept } = history;
  const shown = shownOf(history, asked);
  const keptShown = { ...shown, times: kept.map(({ time }) => time) };
  /** A line of the vertex, and one of each that it is compared with. */
  function linesOf<S extends { readonly time: number }>(
    mine: readonly S[],
    ofOther: (other: History<Sample> & { readonly kept: readonly KeptSample[] }) => readonly S[],
  ) {
    const times = mine.map(({ time }) => time);
    return (name: string, of: (sample: S) => number | null, colour?: string): Series[] => [
      { name: others.length === 0 ? name : `${own}: ${name}`, values: mine.map(of), ...(colour && { colour }) },
      ...others.map(({ name: other, dash, history: theirs }) => {
        const found = ofOther(theirs);
        const values = alignedTo(
          times,
          found.map(({ time }) => time),
          found.map(of),
        );
        return { name: `${other}: ${name}`, values, dash, ...(colour && { colour }) };
      }),
    ];
  }
  const lines = linesOf(samples, (theirs) => theirs.samples);
  const keptLines = linesOf(kept, (theirs) => theirs.kept);
  return (
    <Shown history={history} end={asked.end}>
      <TimeChart
        {...shown}
        title={t('Records per Second')}
        format={formatRate}
        series={coloured(
          lines(t('Received'), (s) => s.recordsIn),
          lines(t('Sent'), (s) => s.recordsOut),
        )}
      />
      <TimeChart
        {...shown}
        title={t('Busy / Backpressured / Idle')}
        format={formatShare}
        top={1000}
        series={[
          ...lines(t('Busy'), (s) => s.busy, LOAD_COLOUR.busy),
          ...lines(t('Backpressured'), (s) => s.backPressured, LOAD_COLOUR.backPressured),
          ...lines(t('Idle'), (s) => s.idle, LOAD_COLOUR.idle),
        ]}
      />
      <TimeChart
        {...shown}
        title={t('Bytes per Second')}
        format={formatByteRate}
        ceilingOf={niceBytes}
        series={coloured(
          lines(t('Received'), (s) => s.bytesIn),
          lines(t('Sent'), (s) => s.bytesOut),
        )}
      />
      {samples.some(({ lag }) => lag !== null) && (
        <TimeChart
          {...shown}
          title={t('Watermark Lag')}
          format={formatDuration}
          ceilingOf={niceDuration}
          series={coloured(lines(t('Lag'), (s) => s.lag))}
        />
      )}
      {!isLive(samples) && samples.some(({ behind }) => behind !== null) && (
        // of old data the distance to the clock is only its age
        <>
          <TimeChart
            {...shown}
            title={t('Behind the Newest Watermark')}
            format={formatDuration}
            ceilingOf={niceDuration}
            series={coloured(lines(t('Behind'), (s) => s.behind))}
          />
          <TimeChart
            {...shown}
            title={t('Event Time per Real Time')}
            format={formatTimes}
            series={[{ name: t('Speed'), values: speedsOf(samples) }]}
          />
        </>
      )}
      {kept.some(({ pending }) => pending !== null) && (
        <TimeChart
          {...keptShown}
          title={t('Pending Records')}
          format={formatCount}
          ceilingOf={niceCount}
          series={coloured(keptLines(t('Pending'), (s) => s.pending))}
        />
      )}
      {kept.some(({ late }) => late !== null && late > 0) && (
        <TimeChart
          {...keptShown}
          title={t('Late Records Dropped per Second')}
          format={formatRate}
          series={coloured(keptLines(t('Late'), (s) => s.late))}
        />
      )}
      {kept.some(({ stateSize }) => stateSize !== null) && (
        <TimeChart
          {...keptShown}
          title={t('State Size in the Latest Checkpoint')}
          format={formatBytes}
          ceilingOf={niceBytes}
          series={coloured(keptLines(t('State'), (s) => s.stateSize))}
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
        title={t('Records per Second')}
        format={formatRate}
        series={[column(t('Sent'), (s) => s.records)]}
      />
      <TimeChart
        {...shown}
        title={t('Bytes per Second')}
        format={formatByteRate}
        ceilingOf={niceBytes}
        series={[column(t('Sent'), (s) => s.bytes)]}
      />
      <TimeChart
        {...shown}
        title={t('Queued')}
        format={formatBytes}
        ceilingOf={niceBytes}
        series={[column(t('Queued'), (s) => s.queuedBytes)]}
      />
      <TimeChart
        {...shown}
        title={t('Queued Buffers')}
        format={formatCount}
        ceilingOf={niceCount}
        series={[column(t('Buffers'), (s) => s.queuedBuffers)]}
      />
    </Shown>
  );
}

function shownOf({ samples, marks }: History<{ readonly time: number }>, { windowMs }: Asked) {
  return { times: samples.map(({ time }) => time), windowMs, marks };
}

const COLOURS = ['var(--tm-line-1)', 'var(--tm-line-2)', 'var(--tm-line-3)'];

/** Each figure has a colour, whosever it is: the vertices differ by their dashes. */
function coloured(...figures: readonly (readonly Series[])[]): Series[] {
  return figures.flatMap((lines, index) => lines.map((line) => ({ ...line, colour: COLOURS[index] ?? '' })));
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
