/** The last minutes of a vertex, as this page has seen them. */

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
      <p className={classes.note}>Kept by this page since it was opened, for ten minutes at most.</p>
      <TimeChart
        title="Records per second"
        times={times}
        format={formatRate}
        series={[column('in', (s) => s.recordsIn), column('out', (s) => s.recordsOut)]}
      />
      <TimeChart
        title="Share of time"
        times={times}
        format={formatShare}
        top={1000}
        series={[
          column('busy', (s) => s.busy),
          column('back-pressured', (s) => s.backPressured),
          column('idle', (s) => s.idle),
        ]}
      />
      <TimeChart
        title="Bytes per second"
        times={times}
        format={formatByteRate}
        base={1024}
        series={[column('in', (s) => s.bytesIn), column('out', (s) => s.bytesOut)]}
      />
      <TimeChart title="Watermark lag" times={times} format={formatDuration} series={[column('lag', (s) => s.lag)]} />
    </div>
  );
}
