/** What can be done with a pipeline of the list: a copy, files, the archive. */

import { ActionIcon, Menu } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import {
  IconArchive,
  IconArchiveOff,
  IconBrandPython,
  IconCopy,
  IconDots,
  IconFileExport,
  IconTrash,
} from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { type ExportFormat, bringBack, duplicatePipeline, exportPipeline } from '../../api/pipelineFiles';
import type { PipelineListed } from '../../api/pipelines';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { makeId } from '../../store/editor';
import { t } from '../../texts/t';
import { exportFailed, saveExport } from './saveExport';

interface Props {
  readonly pipeline: PipelineListed;
  readonly mayEdit: boolean;
  readonly taken: readonly string[];
  readonly onArchive: () => void;
  readonly onDelete: () => void;
}

const failed = (title: string) => (error: Error) =>
  notifications.show({ title, message: error.message, color: 'red', autoClose: false, withCloseButton: true });

export function PipelineMenu({ pipeline, mayEdit, taken, onArchive, onDelete }: Props) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const [key, setKey] = useState(makeId);
  const isArchived = pipeline.archived_at !== null;
  const { mutate: copy } = useMutation({
    mutationFn: () => {
      const { id, head, name } = pipeline;
      return duplicatePipeline({ id, number: head.number, name }, new Set(taken), key);
    },
    onSuccess: ({ id }) => {
      setKey(makeId());
      void client.invalidateQueries({ queryKey: ['pipelines'] });
      void navigate(`/pipelines/${id}/edit`);
    },
    onError: failed(t('The pipeline cannot be duplicated')),
  });
  const { mutate: save } = useMutation({
    mutationFn: (format: ExportFormat) => exportPipeline(pipeline.id, format),
    onSuccess: saveExport,
    onError: exportFailed,
  });
  const { mutate: restore } = useMutation({
    mutationFn: () => bringBack(pipeline.id),
    onSuccess: () => client.invalidateQueries({ queryKey: ['pipelines'] }),
    onError: failed(t('The pipeline cannot be brought back')),
  });
  const duplicate = useSingleFlight(copy);
  return (
    <Menu position="bottom-end" width={190}>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={t('Actions of {name}', { name: pipeline.name })}>
          <IconDots size={17} aria-hidden />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item leftSection={<IconFileExport size={16} aria-hidden />} onClick={() => save('json')}>
          {t('Export as JSON')}
        </Menu.Item>
        <Menu.Item leftSection={<IconBrandPython size={16} aria-hidden />} onClick={() => save('python')}>
          {t('Export as Python')}
        </Menu.Item>
        {mayEdit && (
          <>
            <Menu.Item leftSection={<IconCopy size={16} aria-hidden />} onClick={() => duplicate(undefined)}>
              {t('Duplicate')}
            </Menu.Item>
            <Menu.Divider />
            {isArchived ? (
              <>
                <Menu.Item leftSection={<IconArchiveOff size={16} aria-hidden />} onClick={() => restore()}>
                  {t('Bring back')}
                </Menu.Item>
                <Menu.Item color="red" leftSection={<IconTrash size={16} aria-hidden />} onClick={onDelete}>
                  {t('Delete')}
                </Menu.Item>
              </>
            ) : (
              <Menu.Item leftSection={<IconArchive size={16} aria-hidden />} onClick={onArchive}>
                {t('Archive')}
              </Menu.Item>
            )}
          </>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
