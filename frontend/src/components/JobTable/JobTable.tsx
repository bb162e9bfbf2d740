/** Jobs as a sortable table. */

import { Link } from 'react-router';

import type { JobSummary } from '../../gen/contract';
import { useServerNow } from '../../hooks/useNow';
import { useSorting } from '../../hooks/useSorting';
import { useTimes } from '../../hooks/useTimes';
import { formatAge, formatDuration, NOTHING } from '../../model/format';
import { JOB_COLUMNS, sortBy } from '../../model/jobList';
import { TASK_STATES } from '../../model/states';
import { SortHeader } from '../SortHeader/SortHeader';
import { StateBadge } from '../StateBadge/StateBadge';
import classes from './JobTable.module.css';

interface Props {
  readonly jobs: readonly JobSummary[];
  readonly caption: string;
  /** Shows the end time; only ended jobs need the column. */
  readonly withEnd?: boolean;
}

export function JobTable({ jobs, caption, withEnd = false }: Props) {
  const times = useTimes();
  const now = useServerNow();
  const { sorting, toggle } = useSorting(withEnd ? 'sort-ended' : 'sort', JOB_COLUMNS, {
    column: withEnd ? 'end_time' : 'start_time',
    descending: true,
  });
  const duration = (job: JobSummary) => (job.end_time < 0 ? Math.max(0, now - job.start_time) : job.duration);
  const sorted = sortBy(jobs, sorting, (job, column) => (column === 'duration' ? duration(job) : (job[column] ?? 0)));
  const header = { sorting, onToggle: toggle };
  return (
    <div className="tm-table-scroll">
      <table className={`tm-table ${classes.jobs ?? ''}`}>
        <caption className="tm-visually-hidden">{caption}</caption>
        <thead>
          <tr>
            <SortHeader column="name" label="Job Name" {...header} />
            <SortHeader column="state" label="Status" {...header} />
            <SortHeader column="tasks_total" label="Tasks" {...header} />
            <SortHeader column="start_time" label="Start Time" {...header} />
            {withEnd ? (
              <SortHeader column="end_time" label="End Time" {...header} />
            ) : (
              <SortHeader column="last_checkpoint" label="Last Checkpoint" {...header} />
            )}
            <SortHeader column="duration" label="Duration" numeric {...header} />
          </tr>
        </thead>
        <tbody>
          {sorted.map((job) => (
            <tr key={job.id}>
              <td className={`tm-grow ${classes.name ?? ''}`}>
                <Link to={`/jobs/${job.id}`} title={job.name}>
                  {job.name}
                </Link>
                <div className={classes.note}>
                  {job.waiting_for === '' ? (
                    <span className="tm-mono">{job.id.slice(0, 12)}</span>
                  ) : (
                    <span className={classes.waiting}>Waiting: {job.waiting_for}</span>
                  )}
                </div>
              </td>
              <td className={classes.state}>
                <StateBadge state={job.state} />
              </td>
              <td className={classes.tasks}>
                <TaskCounts job={job} />
              </td>
              <td className={classes.start} data-label="Start Time">
                {times.dateTime(job.start_time)}
              </td>
              {withEnd ? (
                <td className={classes.last} data-label="End Time">
                  {times.dateTime(job.end_time)}
                </td>
              ) : (
                <td className={classes.last} data-label="Last Checkpoint">
                  {lastCheckpoint(job, now)}
                </td>
              )}
              <td className={`tm-num ${classes.duration ?? ''}`} data-label="Duration">
                {formatDuration(duration(job))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
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
