/** Switches of a job's execution: how far one is, and what is told of it. */

import type { Switch } from '../gen/contract';
import { t } from '../texts/t';

/** Whether the cluster still works at it. */
export function isUnderWay({ state }: Pick<Switch, 'state'>): boolean {
  return state !== 'RUNNING' && !hasFailed({ state });
}

export function hasFailed({ state }: Pick<Switch, 'state'>): boolean {
  return state === 'ROLLED_BACK' || state === 'FAILED';
}

/** What happens now, or has happened. */
export function switchText({ state, execution, message }: Pick<Switch, 'state' | 'execution' | 'message'>): string {
  switch (state) {
    case 'CHECKED':
      return t('The program can be executed so: the job is stopped next.');
    case 'STOPPING':
      // what it waits for, if a storage is silent
      return message === '' ? t('The job is being stopped with a savepoint.') : message;
    case 'SUBMITTED':
      return t('The new job starts from the savepoint.');
    case 'RUNNING':
      return execution === 'continuous'
        ? t('It is executed continuously now.')
        : t('It is executed in micro-batches now.');
    case 'ROLLING_BACK':
      return t('{message}: the old job comes back.', { message });
    case 'ROLLED_BACK':
      return t('{message}: the job goes on as before.', { message });
    case 'FAILED':
      return t('The execution was not switched: {message}', { message });
  }
}
