/** All vertices of a job with their exact counters. */

import { Suspense, lazy, memo, useCallback, useState } from 'react';

import { useJob, useMetrics, useVertices } from '../../hooks/useJob';
import { useServerNow } from '../../hooks/useNow';
import { useRole } from '../../hooks/useSession';
import { SightContext, useSight } from '../../hooks/useSight';
import { useTimes } from '../../hooks/useTimes';
import { mayOperate } from '../../model/access';
import { formatBytes, formatCount, formatDuration, formatRate } from '../../model/format';
import type { Vertex } from '../../model/job';
import { t } from '../../texts/t';
import { RescaleVertex } from '../JobActions/RescaleVertex';
import { LoadFigure } from '../LoadBar/LoadMark';
import { StateBadge } from '../StateBadge/StateBadge';
import { VertexLink } from '../VertexLink/VertexLink';
import classes from './VertexTable.module.css';

const RescaleJob = lazy(async () => ({ default: (await import('../JobActions/RescaleJob')).RescaleJob }));

interface Props {
  readonly selected: string | null;
  readonly onSelect: (id: string) => void;
}

export function VertexTable({ selected, onSelect }: Props) {
  const vertices = useVertices();
  const job = useJob();
  const canRescale = mayOperate(useRole()) && job.state === 'RUNNING';
  const [{ number, ...wish }, setWish] = useState<Wish>(NO_WISH);
  const onWish = useCallback(
    (vertexId: string, parallelism: number) =>
      setWish((old) => ({ number: old.number + 1, isOpen: true, wished: { [vertexId]: parallelism } })),
    [],
  );
  return (
    <div className="tm-table-scroll">
      <table className={`tm-table ${classes.table ?? ''}`}>
        <caption className="tm-visually-hidden">{t('Vertices')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('Name')}</th>
            <th scope="col">{t('Status')}</th>
            <th scope="col" className="tm-num">
              {t('Parallelism')}
            </th>
            <th scope="col" className="tm-num">
              {t('Records Received')}
            </th>
            <th scope="col" className="tm-num">
              {t('Records Sent')}
            </th>
            <th scope="col" className="tm-num">
              {t('Bytes Received')}
            </th>
            <th scope="col" className="tm-num">
              {t('Bytes Sent')}
            </th>
            <th scope="col" className="tm-num">
              {t('Busy')}
            </th>
            <th scope="col" className="tm-num" title={t('In the latest completed checkpoint or savepoint')}>
              {t('State Size')}
            </th>
            <th scope="col">{t('Low Watermark')}</th>
            <th scope="col" className="tm-num">
              {t('Duration')}
            </th>
          </tr>
        </thead>
        <tbody>
          {vertices.map((vertex) => (
            <Row
              key={vertex.id}
              vertex={vertex}
              isSelected={vertex.id === selected}
              onSelect={onSelect}
              onWish={canRescale ? onWish : undefined}
            />
          ))}
        </tbody>
      </table>
      {number > 0 && (
        <Suspense>
          <RescaleJob key={number} job={job} {...wish} onClose={() => setWish((old) => ({ ...old, isOpen: false }))} />
        </Suspense>
      )}
    </div>
  );
}

/** What the dialog for rescaling begins with; a new dialog for each opening. */
interface Wish {
  readonly number: number;
  readonly isOpen: boolean;
  readonly wished: Readonly<Record<string, number>>;
}

const NO_WISH: Wish = { number: 0, isOpen: false, wished: {} };

interface RowProps {
  readonly vertex: Vertex;
  readonly isSelected: boolean;
  readonly onSelect: (id: string) => void;
  /** Undefined: nobody can rescale the job now. */
  readonly onWish: ((id: string, parallelism: number) => void) | undefined;
}

const Row = memo(function Row({ isSelected, ...props }: RowProps) {
  const { ref, sight } = useSight();
  return (
    <tr ref={ref} data-selected={isSelected || undefined} className={classes.row}>
      <SightContext value={sight}>
        <Cells {...props} />
      </SightContext>
    </tr>
  );
});

function Cells({ vertex, onSelect, onWish }: Omit<RowProps, 'isSelected'>) {
  const times = useTimes();
  const { id, name, state, parallelism, finished, start_time: start, end_time: end } = vertex;
  const metrics = useMetrics(id);
  if (metrics === undefined) return null;
  return (
    <>
      <td className={classes.name}>
        <VertexLink isClipped id={id} name={name} onSelect={onSelect} />
      </td>
      <td>
        <StateBadge state={state} />
        {finished !== undefined && <Progress finished={finished} of={parallelism} />}
      </td>
      <td className="tm-num">
        {onWish === undefined ? parallelism : <RescaleVertex vertex={vertex} onWish={onWish} />}
      </td>
      <td className="tm-num">
        {formatCount(metrics.records_in)}
        <div className={`tm-live ${classes.rate ?? ''}`}>{formatRate(metrics.records_in_per_second)}</div>
      </td>
      <td className="tm-num">
        {formatCount(metrics.records_out)}
        <div className={`tm-live ${classes.rate ?? ''}`}>{formatRate(metrics.records_out_per_second)}</div>
      </td>
      <td className="tm-num">{formatBytes(metrics.bytes_in)}</td>
      <td className="tm-num">{formatBytes(metrics.bytes_out)}</td>
      <td className="tm-num">
        <LoadFigure kind="busy" value={state === 'RUNNING' ? metrics.busy : null} />
        {state === 'RUNNING' && metrics.back_pressured > 0 && (
          <div>
            <LoadFigure kind="backPressured" value={metrics.back_pressured} />
          </div>
        )}
      </td>
      <td className="tm-num">{formatBytes(metrics.state_size)}</td>
      <td>{times.watermark(metrics.watermark)}</td>
      <td className="tm-num">{start < 0 ? '–' : <Duration start={start} end={end} />}</td>
    </>
  );
}

/** How many subtasks of a vertex have finished, while others have not: in a batch that is how far it has come. */
function Progress({ finished, of }: { readonly finished: number; readonly of: number }) {
  const text = t('{finished} of {parallelism} finished', { finished, parallelism: of });
  return (
    <div className={`tm-live ${classes.progress ?? ''}`}>
      <progress max={of} value={finished} aria-label={text} />
      {text}
    </div>
  );
}

/** Apart from its row: it grows with the clock. */
function Duration({ start, end }: { readonly start: number; readonly end: number }) {
  const now = useServerNow();
  return formatDuration(Math.max(0, (end < 0 ? now : end) - start));
}
