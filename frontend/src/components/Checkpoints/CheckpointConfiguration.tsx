/** The job's checkpoint configuration. */

import type { CheckpointConfig } from '../../gen/contract';
import { retentionOf } from '../../model/checkpoints';
import { formatDuration } from '../../model/format';
import { KeyValues } from '../KeyValues/KeyValues';
import { Panel } from '../Panel/Panel';

export function CheckpointConfiguration({ config }: { readonly config: CheckpointConfig }) {
  const onOff = (value: boolean) => (value ? 'Enabled' : 'Disabled');
  return (
    <Panel title="Configuration">
      <KeyValues
        rows={[
          [
            'Interval',
            config.interval === undefined ? 'Periodic checkpoints disabled' : formatDuration(config.interval),
          ],
          ['Checkpointing Mode', config.mode === 'exactly_once' ? 'Exactly Once' : 'At Least Once'],
          ['Timeout', formatDuration(config.timeout)],
          ['Minimum Pause Between Checkpoints', formatDuration(config.min_pause)],
          ['Maximum Concurrent Checkpoints', config.max_concurrent],
          ['Tolerable Failed Checkpoints', config.tolerable_failures],
          ['Unaligned Checkpoints', unalignedOf(config)],
          ['Incremental Checkpoints', onOff(config.incremental)],
          ['Checkpoints With Finished Tasks', onOff(config.after_tasks_finish)],
          ['Maximum Retained Checkpoints', config.num_retained],
          ['Persist Checkpoints Externally', retentionOf(config)],
          ['State Backend', config.state_backend],
          ['Checkpoint Directory', <Path key="directory" uri={config.directory} />],
          ['Savepoint Directory', <Path key="savepoints" uri={config.savepoint_directory} />],
        ]}
      />
    </Panel>
  );
}

function unalignedOf({ unaligned, aligned_timeout: timeout }: CheckpointConfig): string {
  if (!unaligned) return 'Disabled';
  return timeout > 0 ? `Enabled after ${formatDuration(timeout)} of alignment` : 'Enabled';
}

function Path({ uri }: { readonly uri: string | undefined }) {
  return uri === undefined ? 'The cluster’s' : <span className="tm-mono">{uri}</span>;
}
