/** Stops a job with a savepoint, from which it can be resumed. */

import { Radio, Stack } from '@mantine/core';
import { useState } from 'react';

import { stopJob, type SavepointRequest } from '../../api/checkpoints';
import { useJobPart } from '../../hooks/useJob';
import { useOperation } from '../../hooks/useOperation';
import type { Job } from '../../model/job';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import { AskDialog } from './AskDialog';
import classes from './JobActions.module.css';
import { NEW_SAVEPOINT, SnapshotFields } from './SnapshotFields';

interface Props {
  readonly job: Job;
  readonly isOpen: boolean;
  readonly onClose: () => void;
}

export function StopJob({ job, isOpen, onClose }: Props) {
  const directory = useJobPart(({ moving }) => moving.checkpoints?.config.savepoint_directory);
  const [wanted, setWanted] = useState(NEW_SAVEPOINT);
  const [way, setWay] = useState('suspend');
  const { start, isAsking, error, renew } = useOperation<SavepointRequest & { drain: boolean }>({
    jobId: job.id,
    kind: 'stop',
    ask: (request, triggerId) => stopJob(job.id, request, triggerId),
    onAsked: onClose,
  });
  const close = () => {
    renew();
    onClose();
  };
  return (
    <AskDialog
      title={t('Stop this job with a savepoint?')}
      isOpen={isOpen}
      onClose={close}
      onSubmit={() => start({ ...wanted, drain: way === 'drain' })}
      action={t('Stop job')}
      isBusy={isAsking}
      problem={error?.message ?? null}
    >
      <p className={classes.text}>
        {rich('{name} ends once its savepoint is complete and its sinks have committed.', {
          name: <strong>{job.name}</strong>,
        })}
      </p>
      <div className={classes.fields}>
        <Radio.Group label={t('Mode')} value={way} onChange={setWay}>
          <Stack gap={8} mt={6}>
            <Radio
              value="suspend"
              label={t('Suspend')}
              description={t('Nothing is read after the savepoint. A job started from it resumes exactly here.')}
            />
            <Radio
              value="drain"
              label={t('Drain')}
              description={t(
                'The input ends before the savepoint, so all windows fire. Not meant for resuming the job.',
              )}
            />
          </Stack>
        </Radio.Group>
        <SnapshotFields value={wanted} onChange={setWanted} defaultDirectory={directory} />
      </div>
    </AskDialog>
  );
}
