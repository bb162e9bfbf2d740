/** Cancels a job after a confirmation. */

import { Button, Group, Modal, Text, Tooltip } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { IconBan } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';

import { cancelJob } from '../../api/jobs';
import { useRole } from '../../hooks/useSession';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { mayOperate } from '../../model/access';
import type { Job } from '../../model/job';
import { isCancellable, isTerminal } from '../../model/states';

export function CancelJob({ job }: { readonly job: Pick<Job, 'id' | 'name' | 'state'> }) {
  const [isOpen, { open, close }] = useDisclosure(false);
  const isAllowed = mayOperate(useRole());
  const { mutate, isPending, error, reset } = useMutation({
    mutationFn: () => cancelJob(job.id),
    onSuccess: () => {
      close();
      notifications.show({ title: 'Cancelling', message: <span className="tm-break">{job.name}</span> });
    },
  });
  const cancel = useSingleFlight(mutate);
  if (isTerminal(job.state)) return null;
  return (
    <>
      <Tooltip label="Requires the role operator" disabled={isAllowed}>
        <Button
          variant="default"
          leftSection={<IconBan size={16} stroke={1.8} />}
          disabled={!isAllowed || !isCancellable(job.state)}
          onClick={() => {
            reset();
            open();
          }}
        >
          {job.state === 'CANCELLING' ? 'Cancelling' : 'Cancel job'}
        </Button>
      </Tooltip>
      <Modal
        opened={isOpen && isCancellable(job.state)}
        onClose={close}
        title="Cancel this job?"
        centered
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        <Text size="sm" className="tm-break">
          <strong>{job.name}</strong> ends at once, without a savepoint. To resume it later, use “Stop”, which takes a
          savepoint first.
        </Text>
        {error !== null && (
          <Text role="alert" size="sm" c="var(--tm-failed)" mt="sm">
            {error.message}
          </Text>
        )}
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={close} data-autofocus>
            Keep running
          </Button>
          <Button color="red.8" loading={isPending} onClick={() => cancel()}>
            Cancel job
          </Button>
        </Group>
      </Modal>
    </>
  );
}
