/** Jobs as a sortable table; of those that run with what they do, of those that have ended with when. */

import { Button } from '@mantine/core';
import { useState } from 'react';
import { Link } from 'react-router';

import type { JobSummary } from '../../gen/contract';
import { useServerNow } from '../../hooks/useNow';
import { useSorting } from '../../hooks/useSorting';
import { useTimes } from '../../hooks/useTimes';
import { causeText } from '../../model/causes';
import { formatAge, formatDuration, formatRate, NOTHING } from '../../model/format';
import { distanceOf, JOB_COLUMNS, type JobColumn, limitText, sortBy, type Tags } from '../../model/jobList';
import { TASK_STATES } from '../../model/states';
import { t } from '../../texts/t';
import { SortHeader } from '../SortHeader/SortHeader';
import { TagList } from '../JobTags/TagList';
import { StateBadge } from '../StateBadge/StateBadge';
import classes from './JobTable.module.css';

interface Props {
  readonly jobs: readonly JobSummary[];
  readonly caption: string;
  /** Shows the end time; only ended jobs need the column. */
  readonly withEnd?: boolean;
  readonly tags?: Tags;
  /** Number of rows at the start; a button shows as many again. */
  readonly page?: number;
}

export function JobTable({ jobs, caption, withEnd = false, tags = {}, page = Infinity }: Props) {
  const times = useTimes();
  const now = useServerNow();
  const { sorting, toggle } = useSorting(withEnd ? 'sort-ended' : 'sort', JOB_COLUMNS, {
    column: withEnd ? 'end_time' : 'start_time',
    descending: true,
  });
  const duration = (job: JobSummary) => (job.end_time < 0 ? Math.max(0, now - job.start_time) : job.duration);
  const sorted = sortBy(jobs, sorting, (job, column) => (column === 'duration' ? duration(job) : valueOf(job, column)));
  const header = { sorting, onToggle: toggle };
  const [pages, setPages] = useState(1);
  const shown = sorted.slice(0, pages * page);
  const rest = sorted.length - shown.length;
  return (
    <div className="tm-table-scroll">
      <table className={`tm-table ${classes.jobs ?? ''}`}>
        <caption className="tm-visually-hidden">{caption}</caption>
        <thead>
          <tr>
            <SortHeader column="name" label={t('Job Name')} {...header} />
            <SortHeader column="state" label={t('Status')} {...header} />
            <SortHeader column="tasks_total" label={t('Tasks')} {...header} />
            {!withEnd && (
              <>
                <SortHeader column="records_in_per_second" label={t('Records/s')} numeric {...header} />
                <SortHeader column="behind" label={t('Behind')} numeric {...header} />
                <SortHeader column="limit" label={t('Limited By')} {...header} />
              </>
            )}
            <SortHeader column="start_time" label={t('Start Time')} {...header} />
            {withEnd ? (
              <SortHeader column="end_time" label={t('End Time')} {...header} />
            ) : (
              <SortHeader column="last_checkpoint" label={t('Last Checkpoint')} {...header} />
            )}
            <SortHeader column="duration" label={t('Duration')} numeric {...header} />
          </tr>
        </thead>
        <tbody>
          {shown.map((job) => (
            <tr key={job.id}>
              <td className={`tm-grow ${classes.name ?? ''}`}>
                <Link to={`/jobs/${job.id}`} title={job.name}>
                  {job.name}
                </Link>
                <div className={classes.note}>
                  {job.waiting_for === '' ? (
                    <span className="tm-mono">{job.id.slice(0, 12)}</span>
                  ) : (
                    <span className={classes.waiting}>
                      {t('Waiting: {waitingFor}', { waitingFor: job.waiting_for })}
                    </span>
                  )}{' '}
                  <TagList tags={tags[job.id] ?? []} />
                </div>
              </td>
              <td className={classes.state}>
                <StateBadge state={job.state} />
              </td>
              <td className={classes.tasks}>
                <TaskCounts job={job} />
              </td>
              {!withEnd && <Performance job={job} />}
              <td className={classes.start} data-label={t('Start Time')}>
                {times.dateTime(job.start_time)}
              </td>
              {withEnd ? (
                <td className={classes.last} data-label={t('End Time')}>
                  {times.dateTime(job.end_time)}
                </td>
              ) : (
                <td className={classes.last} data-label={t('Last Checkpoint')}>
                  {lastCheckpoint(job, now)}
                </td>
              )}
              <td className={`tm-num ${classes.duration ?? ''}`} data-label={t('Duration')}>
                {formatDuration(duration(job))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rest > 0 && (
        <div className={classes.more}>
          <Button variant="default" size="xs" onClick={() => setPages(pages + 1)}>
            {t('Show {count} more of {rest}', { count: Math.min(rest, page), rest })}
          </Button>
        </div>
      )}
    </div>
  );
}

function valueOf(job: JobSummary, column: JobColumn): string | number {
  if (column === 'behind') return distanceOf(job);
  if (column === 'limit') return limitText(job);
  return job[column] ?? 0;
}

/** How fast a job reads, how far it is behind, and who limits it; nothing of one that does not run. */
function Performance({ job }: { readonly job: JobSummary }) {
  const { limit, lag } = job;
  const runs = job.state === 'RUNNING';
  const distance = distanceOf(job);
  return (
    <>
      <td className={`tm-num tm-live ${classes.rate ?? ''}`}>
        {runs ? formatRate(job.records_in_per_second) : NOTHING}
      </td>
      <td className={`tm-num tm-live ${classes.behind ?? ''}`} data-label={isNumber(lag) ? t('Lag') : t('Behind')}>
        {runs && distance >= 0 ? formatDuration(distance) : NOTHING}
        {isNumber(lag) && <div className={classes.unit}>{t('behind the clock')}</div>}
      </td>
      <td className={`tm-live ${classes.limit ?? ''}`}>
        {limit === null || limit === undefined ? (
          NOTHING
        ) : (
          <>
            <Link to={`/jobs/${job.id}?vertex=${limit.vertex}`} title={limit.name}>
              {limit.name}
            </Link>
            <div className={classes.note}>{causeText(limit.cause)}</div>
          </>
        )}
      </td>
    </>
  );
}

function isNumber(value: number | null | undefined): boolean {
  return typeof value === 'number';
}

function lastCheckpoint({ last_checkpoint: at }: JobSummary, now: number): string {
  return at === null ? NOTHING : formatAge(Math.max(0, now - at));
}

function TaskCounts({ job }: { readonly job: JobSummary }) {
  const present = TASK_STATES.filter((state) => (job.tasks[state] ?? 0) > 0);
  if (present.length === 0) return <span className="tm-dim">–</span>;
  return (
    <span className={classes.counts}>
      {present.map((state) => (
        <StateBadge key={state} state={state} count={job.tasks[state] ?? 0} plain />
      ))}
    </span>
  );
}
