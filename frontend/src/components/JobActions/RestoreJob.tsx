/**
 * Starts a job again from one of its savepoints or checkpoints, from a path, or without state. One that has not ended is
 * ended first, once it is sure that the snapshot outlives it: most checkpoints are deleted with their job. What was drawn
 * goes on in the editor, whose deployment looks at the state before it stops anything.
 */

import { Radio, Skeleton, Stack } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useNavigate } from 'react-router';

import { checkRestorePoint, fetchRestorePoints, newTriggerId, settled, stopJob } from '../../api/checkpoints';
import { cancelJob, waitForEnd } from '../../api/jobs';
import { useJobPipeline } from '../../hooks/useJobPipeline';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import type { Job } from '../../model/job';
import { type Ending, outliving } from '../../model/restore';
import { isTerminal } from '../../model/states';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import { type Beginning, RestoreChoice } from '../RestoreChoice/RestoreChoice';
import { AskDialog } from './AskDialog';
import classes from './JobActions.module.css';
import { NEW_SAVEPOINT } from './SnapshotFields';

interface Props {
  readonly job: Job;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly onClosed?: () => void;
}

const POLL_MS = 2_000;

export function RestoreJob({ job, isOpen, onClose, onClosed }: Props) {
  const navigate = useNavigate();
  const drawn = useJobPipeline(job.id);
  const isEnded = isTerminal(job.state);
  const { data, error } = useQuery({
    queryKey: ['restore-points', job.id],
    queryFn: () => fetchRestorePoints(job.id),
    enabled: isOpen,
    staleTime: 0,
    // checkpoints are replaced by newer ones
    refetchInterval: isEnded ? false : POLL_MS,
  });
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const [wanted, setEnding] = useState<Ending | null>(null);
  const program = data?.program ?? null;
  const endsBefore = !isEnded && drawn === null;
  const how = job.state === 'RUNNING' ? (wanted ?? 'stop') : 'cancel';
  // a deployment stops what it replaces
  const ending = isEnded ? null : drawn !== null ? 'stop' : how;
  const all = data?.points ?? [];
  const points = outliving(all, ending);
  const mayKeep = ending === 'stop';
  const isOffered = chosen !== null && (chosen.isListed ? isIn(points, chosen) : chosen.kind !== 'keep' || mayKeep);
  const beginning = isOffered ? chosen : preset(points, mayKeep, all.length === 0);
  const location = beginning?.kind === 'snapshot' ? beginning.location : '';
  // one for each dialog: a stop that is asked for again after a lost answer is the same
  const [triggerId] = useState(newTriggerId);
  const {
    mutate,
    isPending,
    error: problem,
  } = useMutation({
    mutationFn: () => {
      if (beginning === null) throw new Error(t('Nothing is chosen.'));
      return endsBefore ? endFor(job.id, beginning, how, triggerId) : Promise.resolve(beginning);
    },
    onSuccess: (from) => {
      const at = from.kind === 'snapshot' ? from.location : '';
      const query = new URLSearchParams(
        drawn !== null
          ? { deploy: String(drawn.version), from: at === '' ? from.kind : at }
          : { program: program?.id ?? '', again: job.id, ...(at === '' ? {} : { savepoint: at }) },
      );
      const path = drawn !== null ? `/pipelines/${drawn.pipeline}/edit` : '/submit';
      void navigate(`${path}?${query.toString()}`);
    },
  });
  const go = useSingleFlight(mutate);
  const isUnchosen = beginning === null || (beginning.kind === 'snapshot' && location === '');
  return (
    <AskDialog
      title={isEnded ? t('Run this job again') : t('Restore this job')}
      isOpen={isOpen}
      onClose={onClose}
      {...(onClosed === undefined ? {} : { onClosed })}
      onSubmit={() => go(undefined)}
      action={!endsBefore ? t('Continue') : how === 'stop' ? t('Stop job and continue') : t('Cancel job and continue')}
      isBusy={isPending}
      isDisabled={data === undefined || isUnchosen || (program === null && drawn === null)}
      problem={problem?.message ?? error?.message ?? null}
    >
      {data === undefined && error === null && <Skeleton height={90} />}
      {data !== undefined && program === null && drawn === null && (
        <p className={classes.text}>
          {rich('The program of {name} has been deleted. {link} to start it from one of these.', {
            name: <strong>{job.name}</strong>,
            link: (
              <Link to="/submit" className="tm-link">
                {t('Upload it again')}
              </Link>
            ),
          })}
        </p>
      )}
      {!isEnded && drawn !== null && (
        <p className={classes.text}>
          {rich('The editor shows what becomes of the state before {name} is stopped with a savepoint.', {
            name: <strong>{job.name}</strong>,
          })}
        </p>
      )}
      {data !== undefined && (
        <div className={classes.fields}>
          {endsBefore && (
            <Radio.Group
              label={t('Before')}
              value={how}
              onChange={(next) => setEnding(next === 'stop' ? 'stop' : 'cancel')}
            >
              <Stack gap={8} mt={6}>
                <Radio
                  value="stop"
                  label={t('Stop with savepoint')}
                  description={t('You can come back to what runs now.')}
                  disabled={job.state !== 'RUNNING'}
                />
                <Radio value="cancel" label={t('Cancel')} description={t('At once, without a savepoint.')} />
              </Stack>
            </Radio.Group>
          )}
          <RestoreChoice
            label={t('Start from')}
            points={points}
            value={beginning}
            onChange={(next) => setChosen({ ...next, isListed: next.kind === 'snapshot' && isIn(points, next) })}
            keep={!mayKeep ? null : drawn !== null ? t('What runs now') : t('What runs now: the savepoint of the stop')}
            note={points.length === all.length ? null : endingNote(ending)}
            empty={{ label: t('No state'), description: t('From the beginning, as on its first start') }}
          />
        </div>
      )}
    </AskDialog>
  );
}

/** `isListed`: a snapshot that was offered; it is no longer chosen when it is no longer there. */
type Chosen = Beginning & { readonly isListed: boolean };

const EMPTY: Beginning = { kind: 'empty' };

function isIn(points: readonly { readonly location: string }[], beginning: Beginning): boolean {
  return beginning.kind === 'snapshot' && points.some(({ location }) => location === beginning.location);
}

/** What is chosen before anything is; null: all state would be lost, which nobody has wished yet. */
function preset(
  points: readonly { readonly location: string }[],
  mayKeep: boolean,
  isStateless: boolean,
): Beginning | null {
  const [newest] = points;
  if (mayKeep) return { kind: 'keep' };
  if (newest !== undefined) return { kind: 'snapshot', location: newest.location };
  return isStateless ? EMPTY : null;
}

function endingNote(ending: Ending | null): string {
  return ending === 'cancel'
    ? t('Snapshots that are deleted when this job is cancelled are not offered.')
    : t('Checkpoints are not offered: they are deleted when this job is stopped.');
}

/**
 * Ends a job, and returns what its program can begin with then. Two jobs must not write at once: the next one is submitted
 * when this one has ended. Throws before it ends the job if the snapshot could not be restored afterwards.
 */
async function endFor(jobId: string, beginning: Beginning, how: Ending, triggerId: string): Promise<Beginning> {
  if (beginning.kind === 'snapshot') {
    const { deleted_by: by, problem } = await checkRestorePoint(jobId, beginning.location);
    if (problem !== '') throw new Error(problem);
    if (by.includes(how)) throw new Error(t('This snapshot is deleted with the job: choose another one.'));
  }
  const savepoint = how === 'stop' ? await stop(jobId, triggerId) : null;
  if (how === 'cancel') await cancelJob(jobId);
  await waitForEnd(jobId);
  if (beginning.kind === 'empty') return beginning;
  if (beginning.kind === 'keep') {
    if (savepoint === null) throw new Error(t('The job has stopped without a savepoint.'));
    return { kind: 'snapshot', location: savepoint };
  }
  const { problem } = await checkRestorePoint(jobId, beginning.location);
  if (problem === '') return beginning;
  // a retained checkpoint may have been replaced before the end
  const location = savepoint ?? (await fetchRestorePoints(jobId)).points[0]?.location;
  if (location === undefined) throw new Error(problem);
  notifications.show({ title: t('The newest snapshot takes the place of the chosen one'), message: problem });
  return { kind: 'snapshot', location };
}

async function stop(jobId: string, triggerId: string): Promise<string | null> {
  const triggered = await stopJob(jobId, { ...NEW_SAVEPOINT, drain: false }, triggerId);
  return (await settled(jobId, triggered['request-id'])).location ?? null;
}
