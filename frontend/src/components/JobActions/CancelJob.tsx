/** Cancels a job after a confirmation. */

import { Button, Group, Modal, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation } from '@tanstack/react-query';

import { cancelJob } from '../../api/jobs';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import type { Job } from '../../model/job';
import { isCancellable } from '../../model/states';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';

interface Props {
  readonly job: Pick<Job, 'id' | 'name' | 'state'>;
  /** A stop with a savepoint is under way. */
  readonly isStopping: boolean;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly onClosed: () => void;
}

export function CancelJob({ job, isStopping, isOpen, onClose, onClosed }: Props) {
  const { mutate, isPending, error, reset } = useMutation({
    mutationFn: () => cancelJob(job.id),
    onSuccess: () => {
      onClose();
      notifications.show({ title: t('Cancelling'), message: <span className="tm-break">{job.name}</span> });
    },
  });
  const cancel = useSingleFlight(mutate);
  return (
    <Modal
      opened={isOpen && isCancellable(job.state)}
      onClose={onClose}
      title={t('Cancel this job?')}
      centered
      closeButtonProps={{ 'aria-label': t('Close') }}
      returnFocus={false}
      onExitTransitionEnd={() => {
        reset();
        onClosed();
      }}
    >
      <Text size="sm" className="tm-break">
        {isStopping
          ? rich('{name} ends at once, without the savepoint that it is being stopped with.', {
              name: <strong>{job.name}</strong>,
            })
          : rich('{name} ends at once, without a savepoint. To resume it later, use “Stop with savepoint”.', {
              name: <strong>{job.name}</strong>,
            })}
      </Text>
      {error !== null && (
        <Text role="alert" size="sm" c="var(--tm-failed)" mt="sm">
          {error.message}
        </Text>
      )}
      <Group justify="flex-end" mt="lg">
        <Button variant="default" onClick={onClose} data-autofocus>
          {t('Keep running')}
        </Button>
        <Button color="red.8" loading={isPending} onClick={() => cancel()}>
          {t('Cancel job')}
        </Button>
      </Group>
    </Modal>
  );
}
