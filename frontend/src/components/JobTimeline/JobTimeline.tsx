/**
 * What a job has gone through: its states and attempts, operations and failures, as a strip and as a list, and when each
 * vertex ran in each attempt.
 */

import { keepPreviousData, useQuery } from '@tanstack/react-query';

import { fetchTimeline } from '../../api/jobs';
import type { JobTimeline as Timeline } from '../../gen/contract';
import { useJobId, useJobPart, useVertices } from '../../hooks/useJob';
import { useTimes } from '../../hooks/useTimes';
import { formatDuration } from '../../model/format';
import type { Vertex } from '../../model/job';
import { isTerminal, toneOf } from '../../model/states';
import { attemptsIn, entriesOf, lanesOf, lastedOf, placeOf, stateText } from '../../model/timeline';
import { plural, t } from '../../texts/t';
import { FailureState } from '../EmptyState/EmptyState';
import { Panel } from '../Panel/Panel';
import { StateBadge, ToneBadge } from '../StateBadge/StateBadge';
import classes from './JobTimeline.module.css';

/** Operations are not in the live document. */
const REFRESH_MS = 5_000;

export function JobTimeline() {
  const jobId = useJobId();
  const state = useJobPart(({ moving }) => moving.job.state);
  const attempt = useJobPart(({ moving }) => moving.job.attempt);
  const failures = useJobPart(({ moving }) => moving.job.failures);
  const { data, error, refetch } = useQuery({
    queryKey: ['timeline', jobId, state, attempt, failures],
    queryFn: () => fetchTimeline(jobId),
    placeholderData: keepPreviousData,
    refetchInterval: isTerminal(state) ? false : REFRESH_MS,
  });
  const vertices = useVertices();
  if (data !== undefined) return <Strip timeline={data} vertices={vertices} />;
  if (error === null) return null;
  return (
    <Panel title={t('Timeline')}>
      <FailureState title={t('The timeline cannot be shown')} message={error.message} onRetry={() => void refetch()} />
    </Panel>
  );
}

interface StripProps {
  readonly timeline: Timeline;
  readonly vertices: readonly Vertex[];
}

export function Strip({ timeline, vertices }: StripProps) {
  const times = useTimes();
  const { begin, is_cut: isCut, now, states, events } = timeline;
  const attempts = attemptsIn(timeline);
  const failed = events.filter(({ is_failed: isFailed }) => isFailed).length;
  const style = (part: { begin: number; end: number | null }) => {
    const { left, width } = placeOf(part, timeline);
    return { left: `${left}%`, width: `${width}%` };
  };
  return (
    <Panel title={t('Timeline')}>
      <p className={classes.summary}>
        {isCut ? t('The last {time}', { time: formatDuration(now - begin) }) : formatDuration(now - begin)}:{' '}
        {plural(attempts, '1 attempt', '{count} attempts')}, {plural(events.length, '1 event', '{count} events')}
        {failed > 0 && `, ${plural(failed, '1 of them a failure', '{count} of them failures')}`}
        {isCut && `; ${t('what was before is no longer kept')}`}
      </p>
      {/* the list below says the same */}
      <div className={classes.strip} aria-hidden>
        <div className={classes.lane}>
          {states.map((span) => (
            <span
              key={`${span.begin} ${span.state}`}
              className={classes.state}
              data-tone={toneOf(span.state)}
              style={style(span)}
              title={`${times.dateTime(span.begin)} ${stateText(span, now)}`}
            >
              {span.state}
            </span>
          ))}
        </div>
        <div className={classes.lane} data-lane="events">
          {events.map((event, index) => (
            <span
              key={`${event.begin} ${index}`}
              className={classes.event}
              data-failed={event.is_failed || undefined}
              style={style(event)}
              title={`${times.dateTime(event.begin)} ${event.text}`}
            />
          ))}
        </div>
        {lanesOf(vertices, timeline.runs).map(({ id, name, runs }) => (
          <div key={id} className={classes.lane} data-lane="vertex">
            {runs.map((run) => (
              <span
                key={run.attempt ?? 'newest'}
                className={classes.state}
                data-tone={toneOf(run.state)}
                data-earlier={run.attempt !== null || undefined}
                style={style(run)}
                title={t('{name}: {state}, {begin}, for {run}', {
                  name: run.attempt === null ? name : t('{name}, attempt {attempt}', { name, attempt: run.attempt }),
                  state: run.state,
                  begin: times.dateTime(run.begin),
                  run: formatDuration(lastedOf(run, now)),
                })}
              />
            ))}
            <span className={classes.vertexName}>{name}</span>
          </div>
        ))}
        <div className={classes.axis}>
          <span>{times.dateTime(begin)}</span>
          <span>{times.dateTime(now)}</span>
        </div>
      </div>
      <details className={classes.more}>
        <summary>{t('List')}</summary>
        <ol className={classes.list} tabIndex={0} aria-label={t('Timeline, newest first')}>
          {entriesOf(timeline).map(({ at, state, event }, index) => (
            <li key={`${at} ${index}`}>
              <span className={classes.when}>{times.dateTime(at)}</span>
              {state !== undefined && (
                <span className={classes.what}>
                  <StateBadge state={state.state} plain />
                  {state.attempt !== null && <span>{t('attempt {attempt}', { attempt: state.attempt })}</span>}
                  <span className="tm-dim">
                    {state.end === null ? t('so far') : t('for')} {formatDuration(lastedOf(state, now))}
                  </span>
                  {state.cause !== '' && <span className="tm-break">{state.cause}</span>}
                </span>
              )}
              {event !== undefined && (
                <span className={classes.what}>
                  <ToneBadge tone={event.is_failed ? 'failed' : event.end === null ? 'waiting' : 'done'} plain>
                    {event.kind}
                  </ToneBadge>
                  <span className="tm-break">{event.text}</span>
                  {event.end !== null && event.end > event.begin && (
                    <span className="tm-dim">{t('took {end}', { end: formatDuration(event.end - event.begin) })}</span>
                  )}
                </span>
              )}
            </li>
          ))}
        </ol>
      </details>
    </Panel>
  );
}
