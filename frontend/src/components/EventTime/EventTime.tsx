/** The watermarks of all vertices at once: how far each is behind, and who holds them back. */

import { Fragment } from 'react';
import { Link, useSearchParams } from 'react-router';

import type { IdleInput, JobEventTime } from '../../gen/contract';
import { useEventTime, useJobPart, useLiveLag, useMetrics, useVertex, useVertices } from '../../hooks/useJob';
import { useTimes } from '../../hooks/useTimes';
import { behindOf, holderText, placeText } from '../../model/eventTime';
import { NOTHING, formatCount, formatDuration, formatTimes } from '../../model/format';
import type { Vertex } from '../../model/job';
import { keyOfLate } from '../../model/peek';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import { Panel } from '../Panel/Panel';
import { peekSearch } from '../PeekLink/PeekLink';
import { VertexLink } from '../VertexLink/VertexLink';
import classes from './EventTime.module.css';

interface Props {
  readonly onSelect: (id: string) => void;
}

export function EventTime({ onSelect }: Props) {
  const time = useEventTime();
  const vertices = useVertices();
  const times = useTimes();
  const late = useJobPart(({ derived }) => derived.late_records);
  // a job without event time has nothing to show
  if (time?.newest === undefined) return null;
  return (
    <Panel flush title={t('Watermarks')}>
      <p className={classes.summary}>
        <span>
          {rich('Newest at the sources: {watermark} ({zone})', {
            watermark: <strong className="tm-live">{times.watermark(time.newest)}</strong>,
            zone: times.zone,
          })}
        </span>
        {time.speed !== undefined && (
          <span>
            {rich('Event-time speed: {speed} real time', {
              speed: <strong className="tm-live">{formatTimes(time.speed)}</strong>,
            })}
          </span>
        )}
        {time.holder !== undefined && <Holder holder={time.holder} onSelect={onSelect} />}
        {time.idle !== undefined && <Idle idle={time.idle} count={time.num_idle ?? 0} onSelect={onSelect} />}
        {late !== undefined && <LateRecords late={late} />}
      </p>
      <div className="tm-table-scroll" tabIndex={0} role="region" aria-label={t('Watermarks of the vertices')}>
        <table className="tm-table">
          <caption className="tm-visually-hidden">{t('Watermarks of the vertices')}</caption>
          <thead>
            <tr>
              <th scope="col">{t('Name')}</th>
              <th scope="col">{t('Low Watermark')}</th>
              <th scope="col" className="tm-num">
                {t('Behind the Newest')}
              </th>
              {time.is_live && (
                <th scope="col" className="tm-num">
                  {t('Lag')}
                </th>
              )}
              <th scope="col">{t('Held Back by')}</th>
            </tr>
          </thead>
          <tbody>
            {vertices.map((vertex) => (
              <Row key={vertex.id} vertex={vertex} time={time} onSelect={onSelect} />
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Holder({ holder, onSelect }: Props & { readonly holder: NonNullable<JobEventTime['holder']> }) {
  const name = useVertex(holder.vertex)?.name ?? holder.vertex;
  return (
    <span>
      {rich('Held back by {vertex} ({holder})', {
        vertex: <VertexLink id={holder.vertex} name={name} onSelect={onSelect} />,
        holder: holderText(holder),
      })}
      {holder.behind !== undefined && (
        <span className="tm-live"> {t('({behind} behind)', { behind: formatDuration(holder.behind) })}</span>
      )}
    </span>
  );
}

interface IdleProps extends Props {
  readonly idle: readonly IdleInput[];
  /** Of all of them. */
  readonly count: number;
}

/** What is declared idle, so that its watermark counts nowhere. */
function Idle({ idle, count, onSelect }: IdleProps) {
  const vertices = useVertices();
  const found = vertices.filter(({ id }) => idle.some(({ vertex }) => vertex === id));
  return (
    <span>
      {rich('Idle ({count}): {places}', {
        count,
        places: found.map(({ id, name }, index) => (
          <Fragment key={id}>
            {index > 0 && '; '}
            <VertexLink id={id} name={name} onSelect={onSelect} />,{' '}
            {idle
              .filter(({ vertex }) => vertex === id)
              .map(placeText)
              .join('; ')}
          </Fragment>
        )),
      })}
      {count > idle.length && ` ${t('and {count} more', { count: count - idle.length })}`}
    </span>
  );
}

/** Leads to samples of the records. */
function LateRecords({ late }: { readonly late: Readonly<Record<string, number>> }) {
  const vertices = useVertices();
  const [params] = useSearchParams();
  return vertices.flatMap((vertex) =>
    vertex.operators.flatMap(({ uid, name }) => {
      const count = late[uid];
      if (count === undefined) return [];
      return [
        <span key={uid}>
          {rich('Late records dropped by {name}: {count} {link}', {
            name,
            count: <strong className="tm-live">{formatCount(count)}</strong>,
            link: (
              <Link className="tm-link" to={peekSearch(params, { vertex: vertex.id, key: keyOfLate(uid) })}>
                {t('Show samples')}
              </Link>
            ),
          })}
        </span>,
      ];
    }),
  );
}

interface RowProps extends Props {
  readonly vertex: Vertex;
  readonly time: JobEventTime;
}

function Row({ vertex, time, onSelect }: RowProps) {
  const times = useTimes();
  const watermark = useMetrics(vertex.id)?.watermark ?? null;
  const lag = useLiveLag(vertex.id);
  const input = useVertex(time.held_by[vertex.id] ?? '');
  const subtask = time.holder?.vertex === vertex.id ? holderText(time.holder) : null;
  return (
    <tr>
      <td>
        <VertexLink id={vertex.id} name={vertex.name} onSelect={onSelect} />
      </td>
      <td className="tm-live">{times.watermark(watermark)}</td>
      <td className="tm-num tm-live">{formatDuration(behindOf(watermark, time, vertex.id))}</td>
      {time.is_live && <td className="tm-num tm-live">{formatDuration(lag)}</td>}
      <td className="tm-live">
        {input === undefined ? (subtask ?? NOTHING) : t('input {name}', { name: input.name })}
      </td>
    </tr>
  );
}
