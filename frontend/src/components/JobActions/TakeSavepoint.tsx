/** Takes a savepoint; the job keeps running. */

import { useState } from 'react';

import { triggerSavepoint, type SavepointRequest } from '../../api/checkpoints';
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
  readonly onClosed: () => void;
}

export function TakeSavepoint({ job, isOpen, onClose, onClosed }: Props) {
  const directory = useJobPart(({ moving }) => moving.checkpoints?.config.savepoint_directory);
  const [wanted, setWanted] = useState(NEW_SAVEPOINT);
  const { start, isAsking, error, renew } = useOperation<SavepointRequest>({
    jobId: job.id,
    kind: 'savepoint',
    ask: (request, triggerId) => triggerSavepoint(job.id, request, triggerId),
    onAsked: onClose,
  });
  const close = () => {
    renew();
    onClose();
  };
  return (
    <AskDialog
      title={t('Take a savepoint')}
      isOpen={isOpen}
      onClose={close}
      onClosed={onClosed}
      onSubmit={() => start(wanted)}
      action={t('Take savepoint')}
      isBusy={isAsking}
      problem={error?.message ?? null}
    >
      <p className={classes.text}>
        {rich('{name} continues. The savepoint is kept until you dispose of it.', {
          name: <strong>{job.name}</strong>,
        })}
      </p>
      <div className={classes.fields}>
        <SnapshotFields value={wanted} onChange={setWanted} defaultDirectory={directory} />
      </div>
    </AskDialog>
  );
}
