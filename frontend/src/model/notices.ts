/**
 * What the top of a job's page says in words before any number: why the job failed or restarts, what it waits for.
 * One line per notice. A further source of notices is a function in SOURCES.
 */

import type { JobDocument } from '../gen/live';
import { exceptionParts } from './exceptions';

export interface Notice {
  /** Unique within a job's notices. */
  readonly id: string;
  /** failed: the job has ended by it; trouble: the job goes on, but not as it should; waiting: nothing is wrong yet. */
  readonly tone: 'failed' | 'trouble' | 'waiting';
  /** What it is about, in a word or two: "Failed", "Waiting". */
  readonly title: string;
  readonly text: string;
  /** A tab of the job's page that says more. */
  readonly tab?: 'exceptions' | 'checkpoints' | 'logs';
}

type Source = (job: JobDocument, now: number) => Notice | null;

const SOURCES: readonly Source[] = [causeOfFailure, waitingFor];

/** `now` is the server's, epoch ms. */
export function jobNotices(job: JobDocument, now: number): Notice[] {
  return SOURCES.map((source) => source(job, now)).filter((notice) => notice !== null);
}

/** The newest exception of a job that has failed or restarts, and how often it has restarted. */
function causeOfFailure(job: JobDocument): Notice | null {
  const hasFailed = job.state === 'FAILED';
  const newest = job.exceptions[0];
  if (newest === undefined || (!hasFailed && job.state !== 'RESTARTING' && job.state !== 'FAILING')) return null;
  const { headline } = exceptionParts(newest);
  const where = newest.task_name === '' ? '' : ` in ${newest.task_name}`;
  const cause = `${newest.name}: ${headline}`.replace(/[\s:.]+$/, '');
  return {
    id: 'cause',
    tone: hasFailed ? 'failed' : 'trouble',
    title: hasFailed ? 'Failed' : 'Restarting',
    text: `${cause}${where}. ${restarts(job.restarts)}.`,
    tab: 'exceptions',
  };
}

function restarts(count: number): string {
  if (count === 0) return 'It was not restarted';
  return count === 1 ? 'It was restarted once' : `It was restarted ${count} times`;
}

function waitingFor(job: JobDocument): Notice | null {
  if (job.waiting_for === '') return null;
  // a job that runs may have nothing to do: no trouble as such
  const tone = job.state === 'RUNNING' ? 'waiting' : 'trouble';
  return { id: 'waiting', tone, title: 'Waiting', text: job.waiting_for };
}
