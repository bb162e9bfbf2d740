/** A job's exceptions: the root exception in full, and the history. */

import { IconMoodCheck } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

import type { JobException } from '../../gen/contract';
import { useTimes } from '../../hooks/useTimes';
import { exceptionParts } from '../../model/exceptions';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import { CopyTrace } from './CopyTrace';
import { EmptyState } from '../EmptyState/EmptyState';
import { Panel } from '../Panel/Panel';
import classes from './ExceptionList.module.css';

interface Props {
  /** Newest first. */
  readonly exceptions: readonly JobException[];
  /** Total number; only the latest are kept. */
  readonly total: number;
  /** Link to the vertex that failed; null if it is not known. */
  readonly vertexLink: (exception: JobException) => string | null;
  /** Where in the program's source an exception comes from. */
  readonly origin?: (exception: JobException) => ReactNode;
  /** All of them, by cause. */
  readonly history?: ReactNode;
}

export function ExceptionList({ exceptions, total, vertexLink, origin = () => null, history }: Props) {
  const [root] = exceptions;
  if (root === undefined) {
    return (
      <Panel label={t('Exceptions')}>
        <EmptyState icon={IconMoodCheck} title={t('No exceptions')}>
          {t('Nothing has failed in this job.')}
        </EmptyState>
      </Panel>
    );
  }
  return (
    <>
      <Panel title={t('Root Exception')} actions={<CopyTrace text={root.stacktrace} />}>
        <Details exception={root} vertexLink={vertexLink} origin={origin} />
      </Panel>
      {total > exceptions.length && (
        <p className={classes.kept}>
          {t('The newest {count} of {total} exceptions are shown; the timeline has more of them.', {
            count: exceptions.length,
            total,
          })}
        </p>
      )}
      {history}
    </>
  );
}

interface DetailsProps extends Pick<Props, 'vertexLink'> {
  readonly exception: JobException;
  readonly origin: NonNullable<Props['origin']>;
}

function Details({ exception, vertexLink, origin }: DetailsProps) {
  const times = useTimes();
  const link = vertexLink(exception);
  const { headline, trace } = exceptionParts(exception);
  return (
    <>
      <p className={classes.head}>
        <span className={classes.name}>{exception.name}</span> {headline}
      </p>
      <p className={classes.facts}>
        <span>{times.dateTime(exception.timestamp)}</span>
        <span>{t('attempt {attempt}', { attempt: exception.attempt })}</span>
        {exception.task_name !== '' && (
          <span>
            {rich('task {task}', {
              task:
                link === null ? (
                  exception.task_name
                ) : (
                  <Link className="tm-link" to={link}>
                    {exception.task_name}
                  </Link>
                ),
            })}
          </span>
        )}
        {exception.location !== '' && <span>{t('on {location}', { location: exception.location })}</span>}
        {origin(exception)}
        <Link className="tm-link" to={`?tab=logs&attempt=${exception.attempt}`}>
          {t('logs of this attempt')}
        </Link>
      </p>
      {trace !== '' && (
        <pre className={classes.trace} tabIndex={0} aria-label={t('Stack trace')}>
          {trace}
        </pre>
      )}
      {exception.suppressed.length > 0 && (
        <>
          <p className={classes.also}>{t('Other exceptions at the same time:')}</p>
          <ul className={classes.suppressed}>
            {exception.suppressed.map((other, index) => (
              <li key={index}>
                <span className={classes.name}>{other.name}</span> {other.message}{' '}
                {other.task_name !== '' && (
                  <span className="tm-dim">{t('in {taskName}', { taskName: other.task_name })}</span>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
