/** A job's exceptions, equal ones in one group: how often, when, where, and what else went on in the attempt. */

import { Accordion, Skeleton } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

import { fetchFailures } from '../../api/jobs';
import type { FailureGroup, FailureOccurrence, JobException } from '../../gen/contract';
import { useJobId } from '../../hooks/useJob';
import { useQueryParam } from '../../hooks/useQueryParam';
import { useTimes } from '../../hooks/useTimes';
import { attemptsOf, exceptionParts, shortPlace } from '../../model/exceptions';
import { FailureState } from '../EmptyState/EmptyState';
import { Panel } from '../Panel/Panel';
import { CopyTrace } from './CopyTrace';
import classes from './ExceptionList.module.css';

interface Props {
  /** Newest first, with their stack traces. */
  readonly exceptions: readonly JobException[];
  readonly origin: (exception: JobException) => ReactNode;
}

export function ExceptionHistory({ exceptions, origin }: Props) {
  const jobId = useJobId();
  const newest = exceptions[0];
  const { data, error, refetch } = useQuery({
    queryKey: ['failures', jobId, exceptions.length, newest?.timestamp, newest?.suppressed.length],
    queryFn: () => fetchFailures(jobId),
    placeholderData: keepPreviousData,
  });
  if (data !== undefined) return <ExceptionGroups groups={data.groups} exceptions={exceptions} origin={origin} />;
  return (
    <Panel title="Exception History">
      {error === null ? (
        <Skeleton height={120} />
      ) : (
        <FailureState
          title="Earlier exceptions cannot be shown"
          message={error.message}
          onRetry={() => void refetch()}
        />
      )}
    </Panel>
  );
}

export function ExceptionGroups({ groups, exceptions, origin }: Props & { readonly groups: readonly FailureGroup[] }) {
  const times = useTimes();
  const [param, setOpen] = useQueryParam('cause');
  const open = (param ?? '').split(',').filter(Boolean);
  if (groups.length === 0) return null;
  return (
    <Panel title={`Exception History (${groups.length === 1 ? '1 cause' : `${groups.length} causes`})`} flush>
      <Accordion
        multiple
        value={open}
        onChange={(now) => setOpen(now.length === 0 ? null : now.join(','))}
        chevronPosition="left"
        keepMounted={false}
      >
        {groups.map((group) => (
          <Accordion.Item key={keyOf(group)} value={keyOf(group)}>
            <Accordion.Control>
              <span className={classes.line}>
                <span className={classes.times}>
                  {group.count}×<span className="tm-visually-hidden"> times</span>
                </span>
                <span className={classes.name}>{group.name}</span>
                <span className={classes.where}>
                  {[shortPlace(group.place), group.vertex_name].filter((part) => part !== '').join(', ')}
                </span>
                <span className={classes.message}>{group.message}</span>
                <span className={classes.when}>
                  {group.count > 1 && `${times.dateTime(group.first)} – `}
                  {times.dateTime(group.last)}
                </span>
              </span>
            </Accordion.Control>
            <Accordion.Panel>
              <Group group={group} exceptions={exceptions} origin={origin} />
            </Accordion.Panel>
          </Accordion.Item>
        ))}
      </Accordion>
    </Panel>
  );
}

function keyOf({ name, vertex, vertex_name: vertexName, place }: FailureGroup): string {
  return [name, vertex === '' ? vertexName : vertex, place].join(' ').replaceAll(',', ';');
}

function Group({ group, exceptions, origin }: Props & { readonly group: FailureGroup }) {
  const { occurrences, count, vertex, place } = group;
  return (
    <>
      <p className={classes.facts}>
        {vertex !== '' && (
          <Link className="tm-link tm-break" to={`?vertex=${encodeURIComponent(vertex)}`}>
            Show {group.vertex_name} in the graph
          </Link>
        )}
        {place !== '' && <span className="tm-mono tm-break">{place}</span>}
        <span>{attemptsOf(occurrences)}</span>
        {count > occurrences.length && (
          <span>
            the newest {occurrences.length} of {count}
          </span>
        )}
      </p>
      <ol className={classes.occurrences}>
        {occurrences.map((occurrence) => (
          <Occurrence
            key={`${occurrence.attempt} ${occurrence.timestamp}`}
            occurrence={occurrence}
            exception={exceptions.find(({ attempt }) => attempt === occurrence.attempt)}
            origin={origin}
          />
        ))}
      </ol>
    </>
  );
}

interface OccurrenceProps {
  readonly occurrence: FailureOccurrence;
  /** Undefined: the page does not know it yet, or any more. */
  readonly exception: JobException | undefined;
  readonly origin: Props['origin'];
}

function Occurrence({ occurrence, exception, origin }: OccurrenceProps) {
  const times = useTimes();
  const { beside, others } = occurrence;
  return (
    <li className={classes.occurrence}>
      <p className={classes.facts}>
        <strong className={classes.when}>{times.dateTime(occurrence.timestamp)}</strong>
        <span>attempt {occurrence.attempt}</span>
        {occurrence.task_name !== '' && <span className="tm-break">task {occurrence.task_name}</span>}
        {occurrence.location !== '' && <span className="tm-break">on {occurrence.location}</span>}
        {exception !== undefined && origin(exception)}
        <Link className="tm-link" to={`?tab=logs&attempt=${occurrence.attempt}`}>
          logs of this attempt
        </Link>
      </p>
      {(beside.length > 0 || others > 0) && (
        <ul className={classes.beside} aria-label="What else went on in this attempt">
          {beside.map(({ kind, timestamp, text }) => (
            <li key={`${kind} ${timestamp} ${text}`}>
              <span className={classes.when}>{times.time(timestamp)}</span> <span className="tm-break">{text}</span>
            </li>
          ))}
          {others > 0 && <li>{others === 1 ? 'another exception' : `${others} other exceptions`} at the same time</li>}
        </ul>
      )}
      {exception !== undefined && <Trace exception={exception} />}
    </li>
  );
}

function Trace({ exception }: { readonly exception: JobException }) {
  const { headline, trace } = exceptionParts(exception);
  if (trace === '') return null;
  return (
    <details className={classes.more}>
      <summary>Stack trace</summary>
      <p className={classes.message}>{headline}</p>
      <pre className={classes.trace} tabIndex={0} aria-label="Stack trace">
        {trace}
      </pre>
      <CopyTrace text={exception.stacktrace} />
    </details>
  );
}
