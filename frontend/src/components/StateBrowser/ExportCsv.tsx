/** Saves what was found in state as a CSV file. */

import { Button } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';

import { type StatePlace, type WantedKey, exportState } from '../../api/state';
import { formatCount } from '../../model/format';
import { nameOf } from '../../model/stateBrowser';
import { t } from '../../texts/t';
import { saveFile } from '../Pipelines/saveFile';
import classes from './StateBrowser.module.css';

interface Props {
  readonly jobId: string;
  readonly place: StatePlace;
  /** Null: keys that have the state. */
  readonly wanted: WantedKey | null;
}

export function ExportCsv({ jobId, place, wanted }: Props) {
  const { mutate, data, error, isPending } = useMutation({
    mutationFn: () => exportState(jobId, place, wanted),
    // no key in its name: keys may be personal
    // spreadsheets take a file for one of UTF-8 only with its mark
    onSuccess: ({ csv }) => saveFile(`${jobId.slice(0, 8)}-${place.state}.csv`, `\ufeff${csv}`),
  });
  return (
    <div className={classes.actions}>
      <span role="status" className={classes.asOf}>
        {error?.message}
        {data !== undefined &&
          (data.is_cut
            ? t('{count} rows of {snapshot}; there is more', {
                count: formatCount(data.num_rows),
                snapshot: nameOf(data.snapshot),
              })
            : t('{count} rows of {snapshot}', { count: formatCount(data.num_rows), snapshot: nameOf(data.snapshot) }))}
      </span>
      <Button
        size="compact-sm"
        variant="default"
        leftSection={<IconDownload size={14} />}
        loading={isPending}
        onClick={() => mutate()}
      >
        {t('Export CSV')}
      </Button>
    </div>
  );
}
