/** Asks which module of a program starts the job. */

import { Button, Group, Select } from '@mantine/core';
import { type SyntheticEvent, useState } from 'react';
import { t } from '../../texts/t';
import { Dialog } from '../Dialog/Dialog';

interface Props {
  readonly name: string;
  readonly modules: readonly string[];
  readonly onChosen: (entry: string) => void;
  readonly onClose: () => void;
}

export function EntryDialog({ name, modules, onChosen, onClose }: Props) {
  const [entry, setEntry] = useState<string | null>(null);
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (entry !== null) onChosen(entry);
  };
  return (
    <Dialog onClose={onClose} title={t('Which module starts the job?')} centered>
      <form onSubmit={submit}>
        <Select
          label={t('Entry Module')}
          description={t('Its code runs when the job is submitted; {name} has no __main__.py or main.py', { name })}
          placeholder={t('Choose a module')}
          data-autofocus
          allowDeselect={false}
          searchable={modules.length > 12}
          data={modules}
          value={entry}
          onChange={setEntry}
        />
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            {t('Close')}
          </Button>
          <Button type="submit" disabled={entry === null}>
            {t('Upload')}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
