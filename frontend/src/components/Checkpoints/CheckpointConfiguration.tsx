/** The job's checkpoint configuration. */

import type { CheckpointConfig } from '../../gen/contract';
import { retentionOf } from '../../model/checkpoints';
import { formatDuration } from '../../model/format';
import { t } from '../../texts/t';
import { KeyValues } from '../KeyValues/KeyValues';
import { Panel } from '../Panel/Panel';

export function CheckpointConfiguration({ config }: { readonly config: CheckpointConfig }) {
  const onOff = (value: boolean) => (value ? t('Enabled') : t('Disabled'));
  return (
    <Panel title={t('Configuration')}>
      <KeyValues
        rows={[
          [
            t('Interval'),
            config.interval === undefined ? t('Periodic checkpoints disabled') : formatDuration(config.interval),
          ],
          [t('Checkpointing Mode'), config.mode === 'exactly_once' ? t('Exactly Once') : t('At Least Once')],
          [t('Timeout'), formatDuration(config.timeout)],
          [t('Minimum Pause Between Checkpoints'), formatDuration(config.min_pause)],
          [t('Maximum Concurrent Checkpoints'), config.max_concurrent],
          [t('Tolerable Failed Checkpoints'), config.tolerable_failures],
          [t('Unaligned Checkpoints'), unalignedOf(config)],
          [t('Incremental Checkpoints'), onOff(config.incremental)],
          [t('Checkpoints With Finished Tasks'), onOff(config.after_tasks_finish)],
          [t('Maximum Retained Checkpoints'), config.num_retained],
          [t('Persist Checkpoints Externally'), retentionOf(config)],
          [t('State Backend'), config.state_backend],
          [t('Checkpoint Directory'), <Path key="directory" uri={config.directory} />],
          [t('Savepoint Directory'), <Path key="savepoints" uri={config.savepoint_directory} />],
        ]}
      />
    </Panel>
  );
}

function unalignedOf({ unaligned, aligned_timeout: timeout }: CheckpointConfig): string {
  if (!unaligned) return t('Disabled');
  return timeout > 0 ? t('Enabled after {timeout} of alignment', { timeout: formatDuration(timeout) }) : t('Enabled');
}

function Path({ uri }: { readonly uri: string | undefined }) {
  return uri === undefined ? t('The cluster’s') : <span className="tm-mono">{uri}</span>;
}
