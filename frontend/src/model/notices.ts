/**
 * Notices at the top of a job's page: why the job failed or restarts, what it waits for.
 * One line per notice. A further source of notices is a function in SOURCES.
 */

import type { JobException, JobFailure, JobState, OpenOperation, Stall } from '../gen/contract';
import { plural, t } from '../texts/t';
import { formatDuration } from './format';
import type { Job } from './job';
import { OPERATION_TITLES } from './operations';

export interface Notice {
  /** Unique within a job's notices. */
  readonly id: string;
  /** failed: it ended the job; trouble: the job continues, but impaired; waiting: nothing is wrong yet. */
  readonly tone: 'failed' | 'trouble' | 'waiting';
  /** Its subject in a word or two: "Failed", "Waiting". */
  readonly title: string;
  readonly text: string;
  /** A tab of the job's page that says more. */
  readonly tab?: 'exceptions' | 'checkpoints' | 'logs';
}

/** A job with what else is said about it. */
export interface Told extends Job {
  /** Newest first. */
  readonly exceptions: readonly JobException[];
  readonly stalls: readonly Stall[];
  /** Under way, oldest first. */
  readonly operations: readonly OpenOperation[];
}

type Source = (job: Told, now: number) => Notice | null;

const SOURCES: readonly Source[] = [causeOfFailure, waitingFor, hangingCall];

/** `now` is the server's, epoch ms. */
export function jobNotices(job: Told, now: number): Notice[] {
  const found = SOURCES.map((source) => source(job, now)).filter((notice) => notice !== null);
  return [...found, ...underWay(job, now)];
}

/** A shorter operation is over before anybody has read of it. */
const LONG_MS = 2_000;

/** Operations that take their time: a page that was opened meanwhile says so, too. */
function underWay({ operations }: Told, now: number): Notice[] {
  return operations
    .filter(({ since }) => now - since >= LONG_MS)
    .map(({ trigger_id: id, kind, is_begun, since, requested_by: by }) => {
      const time = formatDuration(now - since);
      const lasts = is_begun ? t('for {time}', { time }) : t('waits to begin, for {time}', { time });
      const text = by === '' ? lasts : t('{lasts}, requested by {user}', { lasts, user: by });
      return { id, tone: 'waiting', title: OPERATION_TITLES[kind][0], text };
    });
}

const TITLES: Partial<Record<JobState, string>> = {
  FAILED: t('Failed'),
  FAILING: t('Failing'),
  RESTARTING: t('Restarting'),
};

/** The latest cause of a failed or restarting job, its number of restarts, and the time of the next attempt. */
function causeOfFailure(job: Told, now: number): Notice | null {
  const title = TITLES[job.state];
  // a document of an earlier version has its exceptions only
  const cause = job.failure ?? job.exceptions[0];
  if (title === undefined || cause === undefined) return null;
  const headline = (cause.message.trim().split('\n')[0] ?? '').replace(/[\s:.]+$/, '');
  const story = [`${saidOf(cause, headline)}.`, restarts(job)];
  // a narrow page cuts the end off, so what somebody waits for stands first
  const text = [nextAttempt(job, now), ...story].filter(Boolean).join(' ');
  return {
    id: 'cause',
    tone: job.state === 'FAILED' ? 'failed' : 'trouble',
    title,
    text,
    tab: 'exceptions',
  };
}

/** The cause in a line: the exception, its message and the task, each named once. */
function saidOf(cause: JobFailure, headline: string): string {
  const name = cause.name.split('.').at(-1) ?? cause.name;
  // its message names the operator, the record, the exception and the user's own line
  if (name === 'UserFunctionError') return headline;
  const where = cause.task_name === '' ? '' : ` ${t('in {taskName}', { taskName: cause.task_name })}`;
  // a task's failure names the task and the exception itself
  const ofTask = withoutPrefix(headline, `task ${cause.task_name}: `);
  const message = withoutPrefix(ofTask, `${cause.name}: `);
  return (message === '' ? name : `${name}: ${message}`) + where;
}

function withoutPrefix(text: string, prefix: string): string {
  return text.startsWith(prefix) ? text.slice(prefix.length) : text;
}

function restarts({ restarts: count, state }: Told): string {
  if (count === 0) return state === 'FAILED' ? t('It was not restarted.') : '';
  return plural(count, 'It has restarted once.', 'It has restarted {count} times.');
}

function nextAttempt({ next_attempt_at: at }: Told, now: number): string {
  if (at === undefined || at < 0) return '';
  return at > now
    ? t('The next attempt is in {time}.', { time: formatDuration(Math.ceil((at - now) / 1000) * 1000) })
    : '';
}

/** Total number of failures; the list of exceptions holds only the latest. */
export function failureCount(failures: number | undefined, listed: number): number {
  return Math.max(failures ?? 0, listed);
}

/** The longest running call, and its position. */
function hangingCall(job: Told, now: number): Notice | null {
  const [longest] = [...job.stalls].sort((a, b) => a.since - b.since);
  if (longest === undefined) return null;
  const where = longest.task_name === '' ? t('slot {slot}', { slot: longest.slot }) : longest.task_name;
  const stack = longest.stack
    .split('\n')
    .map((line) => line.trim())
    .join(' ');
  const lasts = t('{where}, for {time}', { where, time: formatDuration(Math.max(0, now - longest.since)) });
  return {
    id: 'hanging',
    tone: 'trouble',
    title: longest.in_user_code === false ? t('The runtime does not return') : t('User code does not return'),
    text: t('{call} (task.stall.timeout restarts a job for such a call)', {
      call: stack === '' ? lasts : `${lasts}: ${stack}`,
    }),
    tab: 'logs',
  };
}

function waitingFor(job: Told, now: number): Notice | null {
  // how long a delayed restart waits stands in the notice of its cause
  const isDelayed = job.state === 'RESTARTING' && (job.next_attempt_at ?? -1) >= 0;
  if (job.waiting_for === '' || isDelayed) return null;
  // a running job waits for the call that another notice reports
  if (job.state === 'RUNNING' && hangingCall(job, now) !== null) return null;
  // a running job may have nothing to do, which is no trouble
  const tone = job.state === 'RUNNING' ? 'waiting' : 'trouble';
  return { id: 'waiting', tone, title: t('Waiting'), text: job.waiting_for };
}
