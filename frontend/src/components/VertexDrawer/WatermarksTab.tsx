/** The watermark of each subtask and its lag. */

import type { Vertex } from '../../gen/live';
import { useTimes } from '../../hooks/useTimes';
import { formatDuration } from '../../model/format';
import classes from './VertexDrawer.module.css';

export function WatermarksTab({ vertex }: { readonly vertex: Vertex }) {
  const times = useTimes();
  const known = vertex.subtasks.map(({ metrics }) => metrics.watermark).filter((each) => typeof each === 'number');
  const newest = Math.max(...known);
  return (
    <>
      <p className={classes.note}>
        The low watermark is that of the slowest subtask: {times.watermark(vertex.metrics.watermark)} ({times.zone}).
        Lag is the wall-clock time minus the watermark.
      </p>
      <div className="tm-table-scroll" tabIndex={0}>
        <table className="tm-table">
          <caption className="tm-visually-hidden">Watermarks</caption>
          <thead>
            <tr>
              <th scope="col">Subtask</th>
              <th scope="col">Datetime of Watermark</th>
              <th scope="col" className="tm-num">
                Watermark (ms)
              </th>
              <th scope="col" className="tm-num">
                Watermark Skew
              </th>
              <th scope="col" className="tm-num">
                Lag
              </th>
            </tr>
          </thead>
          <tbody>
            {vertex.subtasks.map(({ index, metrics: { watermark, watermark_lag: lag } }) => (
              <tr key={index}>
                <td>{index}</td>
                <td>{times.watermark(watermark)}</td>
                <td className="tm-num tm-mono">{typeof watermark === 'number' ? watermark : '–'}</td>
                <td className="tm-num">{typeof watermark === 'number' ? formatDuration(newest - watermark) : '–'}</td>
                <td className="tm-num">{formatDuration(lag)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
