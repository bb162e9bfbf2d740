/**
 * Lets a job of an uploaded program go on in the other execution: stops it with a savepoint, and goes to the form that
 * starts its program from there.
 */

import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { fetchRestorePoints, newTriggerId, settled, stopJob } from '../../api/checkpoints';
import { waitForEnd } from '../../api/jobs';
import { useJobPart } from '../../hooks/useJob';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import type { Job } from '../../model/job';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import { AskDialog } from './AskDialog';
import classes from './JobActions.module.css';
import { NEW_SAVEPOINT } from './SnapshotFields';

interface Props {
  readonly job: Job;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly onClosed: () => void;
}

export function SwitchExecution({ job, isOpen, onClose, onClosed }: Props) {
  const navigate = useNavigate();
  const isInBatches = useJobPart(({ moving }) => moving.checkpoints?.config.micro_batches === true);
  const { data, error } = useQuery({
    queryKey: ['restore-points', job.id],
    queryFn: () => fetchRestorePoints(job.id),
    enabled: isOpen,
    staleTime: 0,
  });
  const program = data?.program ?? null;
  // one for each dialog: a stop that is asked for again after a lost answer is the same
  const [triggerId] = useState(newTriggerId);
  const {
    mutate,
    isPending,
    error: problem,
  } = useMutation({
    mutationFn: async () => {
      const triggered = await stopJob(job.id, { ...NEW_SAVEPOINT, drain: false }, triggerId);
      const { location } = await settled(job.id, triggered['request-id']);
      // two jobs must not write at once
      await waitForEnd(job.id);
      if (location == null) throw new Error(t('The job has stopped without a savepoint.'));
      return location;
    },
    onSuccess: (savepoint) => {
      const execution = isInBatches ? 'continuous' : 'micro-batch';
      const query = new URLSearchParams({ program: program?.id ?? '', again: job.id, savepoint, execution });
      void navigate(`/submit?${query.toString()}`);
    },
  });
  const go = useSingleFlight(mutate);
  const name = <strong>{job.name}</strong>;
  const text = isInBatches
    ? rich('{name} is stopped with a savepoint, from which its program can go on continuously.', { name })
    : rich('{name} is stopped with a savepoint, from which its program can go on in micro-batches.', { name });
  return (
    <AskDialog
      title={t('Switch the execution of this job?')}
      isOpen={isOpen}
      onClose={onClose}
      onClosed={onClosed}
      onSubmit={() => go(undefined)}
      action={t('Stop job and continue')}
      isBusy={isPending}
      isDisabled={program === null}
      problem={problem?.message ?? error?.message ?? null}
    >
      <p className={classes.text}>
        {data !== undefined && program === null
          ? t('The program of this job has been deleted: it could not be started again.')
          : text}
      </p>
    </AskDialog>
  );
}
