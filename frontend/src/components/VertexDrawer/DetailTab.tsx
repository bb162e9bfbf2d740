/** Description and totals of a vertex, and the figures of its operators. */

import { useBehind, useLiveLag, useMetrics } from '../../hooks/useJob';
import { useServerNow } from '../../hooks/useNow';
import { useTimes } from '../../hooks/useTimes';
import { formatByteRate, formatBytes, formatCount, formatDuration, formatRate } from '../../model/format';
import type { Vertex } from '../../model/job';
import { t } from '../../texts/t';
import { CopyText } from '../CopyText/CopyText';
import { KeyValues } from '../KeyValues/KeyValues';
import { LoadBar } from '../LoadBar/LoadBar';
import { OperatorTable } from './OperatorTable';

export function DetailTab({ vertex }: { readonly vertex: Vertex }) {
  const now = useServerNow();
  const times = useTimes();
  const { start_time: start, end_time: end } = vertex;
  const metrics = useMetrics(vertex.id);
  const lag = useLiveLag(vertex.id);
  const behind = useBehind(vertex.id);
  if (metrics === undefined) return null;
  const both = (total: string, rate: string) => `${total} · ${rate}`;
  return (
    <>
      <KeyValues
        rows={[
          [t('Description'), vertex.description],
          [
            t('Busy / Backpressured / Idle (max)'),
            <LoadBar key="load" metrics={metrics} isRunning={vertex.state === 'RUNNING'} />,
          ],
          [t('Records Received'), both(formatCount(metrics.records_in), formatRate(metrics.records_in_per_second))],
          [t('Records Sent'), both(formatCount(metrics.records_out), formatRate(metrics.records_out_per_second))],
          [t('Bytes Received'), both(formatBytes(metrics.bytes_in), formatByteRate(metrics.bytes_in_per_second))],
          [t('Bytes Sent'), both(formatBytes(metrics.bytes_out), formatByteRate(metrics.bytes_out_per_second))],
          [t('State Size (latest checkpoint)'), formatBytes(metrics.state_size)],
          [t('Low Watermark'), `${times.watermark(metrics.watermark)} (${times.zone})`],
          lag === null
            ? [t('Behind the Newest Watermark'), formatDuration(behind)]
            : [t('Watermark Lag'), formatDuration(lag)],
          [
            t('Parallelism'),
            t('{parallelism} of at most {maxParallelism}', {
              parallelism: vertex.parallelism,
              maxParallelism: vertex.max_parallelism,
            }),
          ],
          [t('Slot Sharing Group'), vertex.slot_sharing_group],
          [t('Start Time'), start < 0 ? '–' : times.dateTime(start)],
          [t('End Time'), times.dateTime(end)],
          [t('Duration'), start < 0 ? '–' : formatDuration(Math.max(0, (end < 0 ? now : end) - start))],
          [t('Vertex ID'), <CopyText key="id" text={vertex.id} label={t('vertex id')} />],
        ]}
      />
      <OperatorTable operators={vertex.operators} />
    </>
  );
}
