/** Asks before a pipeline is deleted with all its versions. */

import { Button, Group, Text, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { deletePipeline } from '../../api/pipelineFiles';
import type { PipelineListed } from '../../api/pipelines';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { Dialog } from '../Dialog/Dialog';

interface Props {
  readonly pipeline: PipelineListed;
  readonly onClose: () => void;
}

export function DeletePipeline({ pipeline, onClose }: Props) {
  const client = useQueryClient();
  const [typed, setTyped] = useState('');
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => deletePipeline(pipeline.id),
    onSuccess: () => {
      onClose();
      void client.invalidateQueries({ queryKey: ['pipelines'] });
    },
  });
  const remove = useSingleFlight(mutate);
  const { number } = pipeline.head;
  return (
    <Dialog onClose={onClose} title="Delete this pipeline?" centered>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          remove(undefined);
        }}
      >
        <Text size="sm" className="tm-break">
          {pipeline.name} is deleted for good, with {number === 1 ? 'its version' : `its ${number} versions`} and all
          drafts. Jobs keep running, and savepoints stay.
        </Text>
        <TextInput
          mt="sm"
          label="Type the name to confirm"
          data-autofocus
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
        {error !== null && (
          <Text role="alert" size="sm" c="var(--tm-failed)" mt="sm">
            {error.message}
          </Text>
        )}
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            Keep
          </Button>
          <Button type="submit" color="red" loading={isPending} disabled={typed.trim() !== pipeline.name.trim()}>
            Delete
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
