/** All subtasks of a vertex; rows are virtualised, so that a parallelism of 1000 costs no more than 20. */

import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useRef } from 'react';
import { Link } from 'react-router';

import type { LiveVertex } from '../../gen/contract';
import { formatBytes, formatCount, formatRate } from '../../model/format';
import { type Metrics, type Subtask, metricsOf, subtasksOf } from '../../model/job';
import { t } from '../../texts/t';
import { LoadFigure } from '../LoadBar/LoadMark';
import { StateBadge } from '../StateBadge/StateBadge';
import { OfSubtasks } from './OfSubtasks';
import classes from './SubtasksTab.module.css';

const ROW_HEIGHT = 52;
const COLUMNS = [
  [t('Subtask'), ''],
  [t('Status'), ''],
  [t('Records Received'), 'number'],
  [t('Records Sent'), 'number'],
  [t('Bytes Received'), 'number'],
  [t('Bytes Sent'), 'number'],
  [t('Busy'), 'number'],
  [t('Host'), ''],
] as const;

export function SubtasksTab({ vertexId }: { readonly vertexId: string }) {
  return <OfSubtasks vertexId={vertexId}>{(live) => <Table live={live} />}</OfSubtasks>;
}

function Table({ live }: { readonly live: LiveVertex }) {
  const scroller = useRef<HTMLDivElement>(null);
  const subtasks = subtasksOf(live.subtasks);
  // eslint-disable-next-line react-hooks/incompatible-library -- its functions are called in this component only
  const virtual = useVirtualizer({
    count: subtasks.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 6,
  });
  return (
    <div
      ref={scroller}
      className={classes.scroller}
      // a scrollable region must be reachable by keyboard
      tabIndex={0}
      role="table"
      aria-label={t('Subtasks')}
      aria-rowcount={subtasks.length + 1}
    >
      <div role="rowgroup" className={classes.head}>
        <div role="row" className={classes.row} aria-rowindex={1}>
          {COLUMNS.map(([name, kind]) => (
            <span key={name} role="columnheader" data-kind={kind} title={name}>
              {name}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" className={classes.rows} style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const subtask = subtasks[index];
          const figures = live.figures[index];
          if (subtask === undefined || figures === undefined) return null;
          return <Row key={index} subtask={subtask} metrics={metricsOf(figures)} top={start} />;
        })}
      </div>
    </div>
  );
}

interface RowProps {
  readonly subtask: Subtask;
  readonly metrics: Metrics;
  readonly top: number;
}

const Row = memo(function Row({ subtask, metrics, top }: RowProps) {
  return (
    <div
      role="row"
      className={`${classes.row ?? ''} ${classes.body ?? ''}`}
      style={{ height: ROW_HEIGHT, transform: `translateY(${top}px)` }}
      aria-rowindex={subtask.index + 2}
    >
      <span role="cell">{subtask.index}</span>
      <span role="cell">
        <StateBadge state={subtask.state} plain />
      </span>
      <span role="cell" data-kind="number">
        {formatCount(metrics.records_in)}
        <small className="tm-live">{formatRate(metrics.records_in_per_second)}</small>
      </span>
      <span role="cell" data-kind="number">
        {formatCount(metrics.records_out)}
        <small className="tm-live">{formatRate(metrics.records_out_per_second)}</small>
      </span>
      <span role="cell" data-kind="number">
        {formatBytes(metrics.bytes_in)}
      </span>
      <span role="cell" data-kind="number">
        {formatBytes(metrics.bytes_out)}
      </span>
      <span role="cell" data-kind="number">
        <LoadFigure kind="busy" value={metrics.busy} />
      </span>
      <span role="cell" className={classes.where}>
        {subtask.taskmanager ? (
          <Link className="tm-link" to={`/taskmanagers/${encodeURIComponent(subtask.taskmanager)}`}>
            {subtask.host}
          </Link>
        ) : (
          '–'
        )}
        <small>
          {subtask.pid !== undefined && `${t('pid {pid}', { pid: subtask.pid })} · `}
          {t('attempt {attempt}', { attempt: subtask.attempt })}
        </small>
      </span>
    </div>
  );
});
