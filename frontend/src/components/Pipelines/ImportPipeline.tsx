/** Makes a pipeline of a file that was exported. */

import { Button, List, Modal, Text } from '@mantine/core';
import { IconFileImport } from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { useNavigate } from 'react-router';

import { importPipeline } from '../../api/pipelineFiles';
import { makeId } from '../../store/editor';
import { formatBytes } from '../../model/format';
import { t } from '../../texts/t';

const MAX_BYTES = 5 << 20;

export function ImportPipeline() {
  const navigate = useNavigate();
  const client = useQueryClient();
  const input = useRef<HTMLInputElement>(null);
  const [stripped, setStripped] = useState<{ readonly id: string; readonly pointers: readonly string[] } | null>(null);
  const { mutate, isPending, error, reset } = useMutation({
    mutationFn: async (file: File) => importPipeline(await documentIn(file), makeId()),
    onSuccess: ({ pipeline: { id }, stripped: pointers }) => {
      void client.invalidateQueries({ queryKey: ['pipelines'] });
      if (pointers.length === 0) void navigate(`/pipelines/${id}/edit`);
      else setStripped({ id, pointers });
    },
  });
  return (
    <>
      <input
        ref={input}
        type="file"
        accept=".json,application/json"
        aria-label={t('File to import')}
        hidden
        onChange={(event) => {
          const [file] = event.currentTarget.files ?? [];
          if (file !== undefined) mutate(file);
          // the same file can be chosen again
          event.currentTarget.value = '';
        }}
      />
      <Button
        variant="default"
        leftSection={<IconFileImport size={16} aria-hidden />}
        loading={isPending}
        onClick={() => input.current?.click()}
      >
        {t('Import')}
      </Button>
      <Modal
        opened={error !== null}
        onClose={reset}
        title={t('The file cannot be imported')}
        centered
        closeButtonProps={{ 'aria-label': t('Close') }}
      >
        <Text role="alert" size="sm" className="tm-break">
          {error?.message}
        </Text>
      </Modal>
      {stripped !== null && (
        <Modal
          opened
          onClose={() => setStripped(null)}
          title={t('Imported without secrets')}
          centered
          closeButtonProps={{ 'aria-label': t('Close') }}
        >
          <Text size="sm">{t('Users and passwords were left out of these addresses; name a connection instead:')}</Text>
          <List size="sm" my="sm">
            {stripped.pointers.map((pointer) => (
              <List.Item key={pointer} className="tm-break">
                {pointer}
              </List.Item>
            ))}
          </List>
          <Button onClick={() => void navigate(`/pipelines/${stripped.id}/edit`)} data-autofocus>
            {t('Open the pipeline')}
          </Button>
        </Modal>
      )}
    </>
  );
}

async function documentIn(file: File): Promise<unknown> {
  if (file.size > MAX_BYTES)
    throw new Error(t('{name} is larger than {limit}.', { name: file.name, limit: formatBytes(MAX_BYTES) }));
  try {
    return JSON.parse(await file.text());
  } catch {
    throw new Error(t('{name} is not JSON: a pipeline is exported as JSON to be imported again.', { name: file.name }));
  }
}
