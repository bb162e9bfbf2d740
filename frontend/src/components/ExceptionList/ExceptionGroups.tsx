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
import { plural, t } from '../../texts/t';
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
    <Panel title={t('Exception History')}>
      {error === null ? (
        <Skeleton height={120} />
      ) : (
        <FailureState
          title={t('Earlier exceptions cannot be shown')}
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
    <Panel
      title={t('Exception History ({causes})', { causes: plural(groups.length, '1 cause', '{count} causes') })}
      flush
    >
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
                  {group.count}×<span className="tm-visually-hidden"> {t('times')}</span>
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
            {t('Show {vertexName} in the graph', { vertexName: group.vertex_name })}
          </Link>
        )}
        {place !== '' && <span className="tm-mono tm-break">{place}</span>}
        <span>{attemptsOf(occurrences)}</span>
        {count > occurrences.length && (
          <span>{t('the newest {shown} of {count}', { shown: occurrences.length, count })}</span>
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
        <span>{t('attempt {attempt}', { attempt: occurrence.attempt })}</span>
        {occurrence.task_name !== '' && (
          <span className="tm-break">{t('task {taskName}', { taskName: occurrence.task_name })}</span>
        )}
        {occurrence.location !== '' && (
          <span className="tm-break">{t('on {location}', { location: occurrence.location })}</span>
        )}
        {exception !== undefined && origin(exception)}
        <Link className="tm-link" to={`?tab=logs&attempt=${occurrence.attempt}`}>
          {t('logs of this attempt')}
        </Link>
      </p>
      {(beside.length > 0 || others > 0) && (
        <ul className={classes.beside} aria-label={t('What else went on in this attempt')}>
          {beside.map(({ kind, timestamp, text }) => (
            <li key={`${kind} ${timestamp} ${text}`}>
              <span className={classes.when}>{times.time(timestamp)}</span> <span className="tm-break">{text}</span>
            </li>
          ))}
          {others > 0 && (
            <li>
              {t('{others} at the same time', {
                others: plural(others, 'another exception', '{count} other exceptions'),
              })}
            </li>
          )}
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
      <summary>{t('Stack trace')}</summary>
      <p className={classes.message}>{headline}</p>
      <pre className={classes.trace} tabIndex={0} aria-label={t('Stack trace')}>
        {trace}
      </pre>
      <CopyTrace text={exception.stacktrace} />
    </details>
  );
}
