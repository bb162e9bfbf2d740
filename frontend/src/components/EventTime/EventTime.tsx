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
    <Panel flush title="Watermarks">
      <p className={classes.summary}>
        <span>
          Newest at the sources: <strong className="tm-live">{times.watermark(time.newest)}</strong> ({times.zone})
        </span>
        {time.speed !== undefined && (
          <span>
            Event-time speed: <strong className="tm-live">{formatTimes(time.speed)}</strong> real time
          </span>
        )}
        {time.holder !== undefined && <Holder holder={time.holder} onSelect={onSelect} />}
        {time.idle !== undefined && <Idle idle={time.idle} count={time.num_idle ?? 0} onSelect={onSelect} />}
        {late !== undefined && <LateRecords late={late} />}
      </p>
      <div className="tm-table-scroll" tabIndex={0} role="region" aria-label="Watermarks of the vertices">
        <table className="tm-table">
          <caption className="tm-visually-hidden">Watermarks of the vertices</caption>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Low Watermark</th>
              <th scope="col" className="tm-num">
                Behind the Newest
              </th>
              {time.is_live && (
                <th scope="col" className="tm-num">
                  Lag
                </th>
              )}
              <th scope="col">Held Back by</th>
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
      Held back by <VertexLink id={holder.vertex} name={name} onSelect={onSelect} />, {holderText(holder)}
      {holder.behind !== undefined && <span className="tm-live"> ({formatDuration(holder.behind)} behind)</span>}
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
      Idle ({count}):{' '}
      {found.map(({ id, name }, index) => (
        <Fragment key={id}>
          {index > 0 && '; '}
          <VertexLink id={id} name={name} onSelect={onSelect} />,{' '}
          {idle
            .filter(({ vertex }) => vertex === id)
            .map(placeText)
            .join('; ')}
        </Fragment>
      ))}
      {count > idle.length && ` and ${count - idle.length} more`}
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
          Late records dropped by {name}: <strong className="tm-live">{formatCount(count)}</strong>{' '}
          <Link to={peekSearch(params, { vertex: vertex.id, key: keyOfLate(uid) })}>Show samples</Link>
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
      <td className="tm-live">{input === undefined ? (subtask ?? NOTHING) : `input ${input.name}`}</td>
    </tr>
  );
}
