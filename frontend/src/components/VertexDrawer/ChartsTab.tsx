/** Charts of a vertex's last minutes, as sampled by this page. */

import { useNow } from '../../hooks/useNow';
import { formatByteRate, formatDuration, formatRate, formatShare } from '../../model/format';
import type { Sample } from '../../model/history';
import { vertexHistory } from '../../store/metricHistory';
import { TimeChart } from '../TimeChart/TimeChart';
import classes from './VertexDrawer.module.css';

interface Props {
  readonly jobId: string;
  readonly vertexId: string;
}

export function ChartsTab({ jobId, vertexId }: Props) {
  // samples come once a second, as this does
  useNow();
  const samples = vertexHistory(jobId, vertexId);
  const times = samples.map((sample) => sample.time);
  const column = (name: string, of: (sample: Sample) => number | null) => ({ name, values: samples.map(of) });
  return (
    <div className={classes.charts}>
      <p className={classes.note}>Recorded since this page was opened, for at most ten minutes.</p>
      <TimeChart
        title="Records per Second"
        times={times}
        format={formatRate}
        series={[column('Received', (s) => s.recordsIn), column('Sent', (s) => s.recordsOut)]}
      />
      <TimeChart
        title="Busy / Backpressured / Idle"
        times={times}
        format={formatShare}
        top={1000}
        series={[
          column('Busy', (s) => s.busy),
          column('Backpressured', (s) => s.backPressured),
          column('Idle', (s) => s.idle),
        ]}
      />
      <TimeChart
        title="Bytes per Second"
        times={times}
        format={formatByteRate}
        base={1024}
        series={[column('Received', (s) => s.bytesIn), column('Sent', (s) => s.bytesOut)]}
      />
      <TimeChart title="Watermark Lag" times={times} format={formatDuration} series={[column('Lag', (s) => s.lag)]} />
    </div>
  );
}
