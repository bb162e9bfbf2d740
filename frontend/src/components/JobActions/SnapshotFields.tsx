/** Target directory and format of a savepoint. */

import { Select, TextInput } from '@mantine/core';

import type { SavepointRequest } from '../../api/checkpoints';
import { t } from '../../texts/t';

interface Props {
  readonly value: SavepointRequest;
  readonly onChange: (value: SavepointRequest) => void;
  readonly defaultDirectory: string | undefined;
}

export function SnapshotFields({ value, onChange, defaultDirectory }: Props) {
  return (
    <>
      <TextInput
        label={t('Directory')}
        description={t(
          'The savepoint gets a directory of its own in it; if empty, the cluster’s savepoint directory is used',
        )}
        placeholder={defaultDirectory ?? ''}
        value={value.directory}
        onChange={(event) => onChange({ ...value, directory: event.currentTarget.value })}
        classNames={{ input: 'tm-mono' }}
      />
      <Select
        label={t('Format')}
        allowDeselect={false}
        data={[
          { value: 'CANONICAL', label: t('Canonical: the same for every state backend') },
          { value: 'NATIVE', label: t("Native: the state backend's own") },
        ]}
        value={value.format}
        onChange={(format) => onChange({ ...value, format: format === 'NATIVE' ? 'NATIVE' : 'CANONICAL' })}
      />
    </>
  );
}

export const NEW_SAVEPOINT: SavepointRequest = { directory: '', format: 'CANONICAL' };
