/** The savepoint or checkpoint to restore from, and the claim mode. */

import { Checkbox, Select, TextInput } from '@mantine/core';

import type { ClaimMode, RunRequest } from '../../gen/contract';
import { t } from '../../texts/t';
import classes from './RunForm.module.css';

export interface Restore {
  readonly path: string;
  readonly allowNonRestored: boolean;
  readonly claimMode: ClaimMode;
}

export const NO_RESTORE: Restore = { path: '', allowNonRestored: false, claimMode: 'NO_CLAIM' };

export function restoreRequest({ path, allowNonRestored, claimMode }: Restore): Partial<RunRequest> {
  if (path.trim() === '') return {};
  return { savepointPath: path.trim(), allowNonRestoredState: allowNonRestored, claimMode };
}

interface Props {
  readonly className?: string | undefined;
  readonly value: Restore;
  readonly onChange: (value: Restore) => void;
}

export function RestoreFields({ className, value, onChange }: Props) {
  return (
    <fieldset className={`${classes.restore ?? ''} ${className ?? ''}`}>
      <legend className="tm-visually-hidden">{t('Restore')}</legend>
      <TextInput
        label={t('Savepoint Path')}
        description={t('Directory of a savepoint or a retained checkpoint; if empty, the job starts without state')}
        placeholder="file:///…/savepoint-1a2b3c-0123456789ab"
        value={value.path}
        onChange={(event) => onChange({ ...value, path: event.currentTarget.value })}
        classNames={{ input: 'tm-mono' }}
      />
      {value.path.trim() !== '' && (
        <div className={classes.restoreOptions}>
          <Select
            label={t('Claim Mode')}
            allowDeselect={false}
            data={[
              { value: 'NO_CLAIM', label: t('No claim: the job never deletes it') },
              { value: 'CLAIM', label: t('Claim: the job owns it and deletes it when newer checkpoints replace it') },
            ]}
            value={value.claimMode}
            onChange={(mode) => onChange({ ...value, claimMode: mode === 'CLAIM' ? 'CLAIM' : 'NO_CLAIM' })}
          />
          <Checkbox
            label={t('Allow Non Restored State')}
            description={t('Drop state of operators that the program does not have')}
            checked={value.allowNonRestored}
            onChange={(event) => onChange({ ...value, allowNonRestored: event.currentTarget.checked })}
          />
        </div>
      )}
    </fieldset>
  );
}
