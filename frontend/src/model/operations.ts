/** Operations on a job: what they are called while they are under way, done, and in vain. */

import type { OpenOperation, OperationResult } from '../gen/contract';
import { t } from '../texts/t';

export type OperationKind = OpenOperation['kind'];

/** Titles while in progress, on success and on failure. */
export type Titles = readonly [string, string, string];

export const OPERATION_TITLES: Readonly<Record<OperationKind, Titles>> = {
  cancel: [t('Cancelling the job'), t('The job is cancelled'), t('The job was not cancelled')],
  checkpoint: [t('Taking a checkpoint'), t('Checkpoint completed'), t('No checkpoint was taken')],
  rescale: [t('Rescaling the job'), t('The job runs with its new parallelism'), t('The job was not rescaled')],
  savepoint: [t('Taking a savepoint'), t('Savepoint completed'), t('No savepoint was taken')],
  stop: [t('Stopping the job'), t('The job has stopped'), t('The job did not stop')],
};

/** What a completed operation has made, for a line below its title; empty: nothing to name. */
export function describeResult(kind: OperationKind, { location, checkpoint_id: id }: OperationResult): string {
  if (kind === 'checkpoint') return t('Number {id}', { id: id ?? '?' });
  if (kind === 'stop') return t('Savepoint {location}', { location: location ?? '' });
  return kind === 'savepoint' ? (location ?? '') : '';
}
