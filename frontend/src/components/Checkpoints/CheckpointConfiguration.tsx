/** How the job's checkpoints are taken and kept. */

import type { CheckpointConfig } from '../../gen/live';
import { retentionOf } from '../../model/checkpoints';
import { formatDuration } from '../../model/format';
import { KeyValues } from '../KeyValues/KeyValues';
import { Panel } from '../Panel/Panel';

export function CheckpointConfiguration({ config }: { readonly config: CheckpointConfig }) {
  const onOff = (value: boolean) => (value ? 'on' : 'off');
  return (
    <Panel title="Configuration">
      <KeyValues
        rows={[
          ['Interval', config.interval === undefined ? 'no periodic checkpoints' : formatDuration(config.interval)],
          ['Mode', config.mode === 'exactly_once' ? 'exactly once' : 'at least once'],
          ['Timeout', formatDuration(config.timeout)],
          ['Pause between two', formatDuration(config.min_pause)],
          ['At the same time', config.max_concurrent],
          ['Tolerated failures in a row', config.tolerable_failures],
          ['Unaligned', unalignedOf(config)],
          ['Incremental', onOff(config.incremental)],
          ['After tasks have finished', onOff(config.after_tasks_finish)],
          ['Kept at a time', config.num_retained],
          ['When the job ends', retentionOf(config)],
          ['State backend', config.state_backend],
          ['Directory', <Path key="directory" uri={config.directory} />],
          ['Savepoints', <Path key="savepoints" uri={config.savepoint_directory} />],
        ]}
      />
    </Panel>
  );
}

function unalignedOf({ unaligned, aligned_timeout: timeout }: CheckpointConfig): string {
  if (!unaligned) return 'off';
  return timeout > 0 ? `after ${formatDuration(timeout)} of alignment` : 'on';
}

function Path({ uri }: { readonly uri: string | undefined }) {
  return uri === undefined ? 'the cluster’s' : <span className="tm-mono">{uri}</span>;
}
