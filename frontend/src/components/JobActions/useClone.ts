/** Clones the version of a pipeline that a job was drawn as, and opens the new pipeline in the editor. */

import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { newTriggerId } from '../../api/checkpoints';
import { duplicatePipeline } from '../../api/pipelineFiles';
import { fetchPipelines } from '../../api/pipelines';
import { useJobPipeline } from '../../hooks/useJobPipeline';
import { useRole } from '../../hooks/useSession';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { maySubmit } from '../../model/access';
import { t } from '../../texts/t';

export interface Clone {
  readonly isAllowed: boolean;
  readonly isPending: boolean;
  readonly clone: () => void;
}

/** Null: the job was not drawn, or this is not known yet. */
export function useClone(jobId: string): Clone | null {
  const drawn = useJobPipeline(jobId);
  const isAllowed = maySubmit(useRole());
  const client = useQueryClient();
  const navigate = useNavigate();
  // a request repeated after a lost response creates one pipeline
  const [key, setKey] = useState(newTriggerId);
  const { mutate, isPending } = useMutation({
    mutationFn: async () => {
      const { pipeline: id = '', version: number = 0, name = '' } = drawn ?? {};
      const taken = new Set((await fetchPipelines()).map((pipeline) => pipeline.name));
      return duplicatePipeline({ id, number, name }, taken, key);
    },
    onSuccess: ({ id }) => {
      setKey(newTriggerId());
      void client.invalidateQueries({ queryKey: ['pipelines'] });
      void navigate(`/pipelines/${id}/edit`);
    },
    onError: ({ message }) =>
      notifications.show({
        title: t('The pipeline cannot be cloned'),
        message,
        color: 'red',
        autoClose: false,
        withCloseButton: true,
      }),
  });
  const clone = useSingleFlight(mutate);
  return drawn === null ? null : { isAllowed, isPending, clone: () => clone() };
}
