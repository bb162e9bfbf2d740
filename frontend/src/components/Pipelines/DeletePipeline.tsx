/** Asks before a pipeline is deleted with all its versions. */

import { Button, Group, Text, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { deletePipeline } from '../../api/pipelineFiles';
import type { PipelineListed } from '../../api/pipelines';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { plural, t } from '../../texts/t';
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
    <Dialog onClose={onClose} title={t('Delete this pipeline?')} centered>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          remove(undefined);
        }}
      >
        <Text size="sm" className="tm-break">
          {t('{name} is deleted for good, with {versions} and all drafts. Jobs keep running, and savepoints stay.', {
            name: pipeline.name,
            versions: plural(number, 'its version', 'its {count} versions'),
          })}
        </Text>
        <TextInput
          mt="sm"
          label={t('Type the name to confirm')}
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
            {t('Keep')}
          </Button>
          <Button type="submit" color="red" loading={isPending} disabled={typed.trim() !== pipeline.name.trim()}>
            {t('Delete')}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
