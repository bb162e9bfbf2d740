/**
 * Starts a job again from one of its savepoints or checkpoints, from a path, or without state. One that has not ended is
 * ended first. What was drawn goes on in the editor, whose deployment looks at the state before it stops anything.
 */

import { Radio, Skeleton, Stack } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useNavigate } from 'react-router';

import { fetchRestorePoints, newTriggerId, settled, stopJob } from '../../api/checkpoints';
import { cancelJob, waitForEnd } from '../../api/jobs';
import { useJobPipeline } from '../../hooks/useJobPipeline';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import type { Job } from '../../model/job';
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

type Ending = 'stop' | 'cancel';

export function RestoreJob({ job, isOpen, onClose, onClosed }: Props) {
  const navigate = useNavigate();
  const drawn = useJobPipeline(job.id);
  const { data, error } = useQuery({
    queryKey: ['restore-points', job.id],
    queryFn: () => fetchRestorePoints(job.id),
    enabled: isOpen,
    staleTime: 0,
  });
  const [chosen, setChosen] = useState<Beginning | null>(null);
  const [ending, setEnding] = useState<Ending | null>(null);
  const points = data?.points ?? [];
  const [newest] = points;
  const beginning = chosen ?? (newest === undefined ? EMPTY : { kind: 'snapshot', location: newest.location });
  const location = beginning.kind === 'snapshot' ? beginning.location : '';
  const program = data?.program ?? null;
  const isEnded = isTerminal(job.state);
  const endsBefore = !isEnded && drawn === null;
  const how = job.state === 'RUNNING' ? (ending ?? 'stop') : 'cancel';
  // one for each dialog: a stop that is asked for again after a lost answer is the same
  const [triggerId] = useState(newTriggerId);
  const {
    mutate,
    isPending,
    error: problem,
  } = useMutation({
    mutationFn: async () => {
      if (endsBefore) await end(job.id, how, triggerId);
    },
    onSuccess: () => {
      const query = new URLSearchParams(
        drawn !== null
          ? { deploy: String(drawn.version), from: location === '' ? 'empty' : location }
          : { program: program?.id ?? '', again: job.id, ...(location === '' ? {} : { savepoint: location }) },
      );
      const path = drawn !== null ? `/pipelines/${drawn.pipeline}/edit` : '/submit';
      void navigate(`${path}?${query.toString()}`);
    },
  });
  const go = useSingleFlight(mutate);
  const isPathless = beginning.kind === 'snapshot' && location === '';
  return (
    <AskDialog
      title={isEnded ? t('Run this job again') : t('Restore this job')}
      isOpen={isOpen}
      onClose={onClose}
      {...(onClosed === undefined ? {} : { onClosed })}
      onSubmit={() => go(undefined)}
      action={!endsBefore ? t('Continue') : how === 'stop' ? t('Stop job and continue') : t('Cancel job and continue')}
      isBusy={isPending}
      isDisabled={data === undefined || isPathless || (program === null && drawn === null)}
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
          <RestoreChoice
            label={t('Start from')}
            points={points}
            value={beginning}
            onChange={setChosen}
            keep={null}
            empty={{ label: t('No state'), description: t('From the beginning, as on its first start') }}
          />
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
        </div>
      )}
    </AskDialog>
  );
}

const EMPTY: Beginning = { kind: 'empty' };

/** Two jobs must not write at once: the next one is submitted when this one has ended. */
async function end(jobId: string, how: Ending, triggerId: string): Promise<void> {
  if (how === 'stop') await settled(jobId, await stopJob(jobId, { ...NEW_SAVEPOINT, drain: false }, triggerId));
  else await cancelJob(jobId);
  await waitForEnd(jobId);
}
