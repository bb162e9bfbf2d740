/** Lets a job of an uploaded program go on in the other execution: the cluster does it, this shows how far it is. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { useNavigate } from 'react-router';

import { newTriggerId } from '../../api/checkpoints';
import { type Execution, switchExecution } from '../../api/switches';
import { useJobPart } from '../../hooks/useJob';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { switchKey, useSwitch } from '../../hooks/useSwitch';
import type { Job } from '../../model/job';
import { hasFailed, isUnderWay, switchText } from '../../model/switches';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import { AskDialog } from './AskDialog';
import classes from './JobActions.module.css';

interface Props {
  readonly job: Job;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly onClosed: () => void;
}

export function SwitchExecution({ job, isOpen, onClose, onClosed }: Props) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const isInBatches = useJobPart(({ moving }) => moving.checkpoints?.config.micro_batches === true);
  // a request that is sent again after a lost answer is the same; one behind a switch that has failed is another
  const key = useRef(newTriggerId());
  const { mutate, isPending, error, data } = useMutation({
    mutationFn: (execution: Execution) => switchExecution(job.id, execution, key.current),
    onSuccess: (begun) => queries.setQueryData(switchKey(job.id), begun),
  });
  const newest = useSwitch(job.id, data !== undefined);
  const asked = newest?.id === data?.id ? newest : null;
  const isFailed = asked !== null && hasFailed(asked);
  const target = (isFailed ? null : asked?.goes_on_as) ?? null;
  useEffect(() => {
    if (target === null || !isOpen) return;
    // the page of the new job is this one, with another job
    onClose();
    void navigate(`/jobs/${target}`);
  }, [navigate, onClose, target, isOpen]);
  const ask = useSingleFlight(mutate);
  const submit = () => {
    if (isFailed) key.current = newTriggerId();
    ask(isInBatches ? 'continuous' : 'micro-batch');
  };
  const name = <strong>{job.name}</strong>;
  const question = isInBatches
    ? rich('{name} is stopped with a savepoint, from which its program goes on continuously.', { name })
    : rich('{name} is stopped with a savepoint, from which its program goes on in micro-batches.', { name });
  return (
    <AskDialog
      title={t('Switch the execution of this job?')}
      isOpen={isOpen}
      onClose={onClose}
      onClosed={onClosed}
      onSubmit={submit}
      action={t('Switch')}
      isBusy={isPending || (asked !== null && isUnderWay(asked))}
      problem={error?.message ?? (asked !== null && isFailed ? switchText(asked) : null)}
    >
      <p className={classes.text}>{question}</p>
      <p className={classes.text}>
        {t('The cluster does this by itself. If the new job cannot run, the old one goes on from the savepoint.')}
      </p>
      <p className={classes.text} role="status">
        {isPending
          ? t('The program is planned for the other execution.')
          : asked !== null && !isFailed && switchText(asked)}
      </p>
    </AskDialog>
  );
}
