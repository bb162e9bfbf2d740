/** The watermark of each subtask and its lag. */

import type { LiveVertex } from '../../gen/contract';
import { useEventTime, useMetrics } from '../../hooks/useJob';
import { useTimes } from '../../hooks/useTimes';
import { isLiveAt, liveLagOf, placeText } from '../../model/eventTime';
import { formatDuration } from '../../model/format';
import { metricsOf } from '../../model/job';
import { t } from '../../texts/t';
import { OfSubtasks } from './OfSubtasks';
import classes from './VertexDrawer.module.css';

export function WatermarksTab({ vertexId }: { readonly vertexId: string }) {
  return <OfSubtasks vertexId={vertexId}>{(live) => <Table vertexId={vertexId} live={live} />}</OfSubtasks>;
}

function Table({ vertexId, live }: { readonly vertexId: string; readonly live: LiveVertex }) {
  const times = useTimes();
  const time = useEventTime();
  const isLive = isLiveAt(time, vertexId);
  const idle = time?.idle?.filter(({ vertex }) => vertex === vertexId) ?? [];
  const low = useMetrics(vertexId)?.watermark ?? null;
  const watermarks = Object.entries(live.figures).map(([index, row]) => [index, metricsOf(row).watermark] as const);
  const known = watermarks.map(([, watermark]) => watermark).filter((each) => typeof each === 'number');
  const newest = Math.max(...known);
  return (
    <>
      <p className={classes.note}>
        {t('The low watermark is that of the slowest subtask: {low} ({zone}).', {
          low: times.watermark(low),
          zone: times.zone,
        })}
        {isLive && ` ${t('Lag is the wall-clock time minus the watermark.')}`}
      </p>
      {idle.length > 0 && (
        <p className={classes.note}>
          {t('Idle, and waited for by nobody: {idle}.', { idle: idle.map(placeText).join('; ') })}
        </p>
      )}
      <div className="tm-table-scroll" tabIndex={0}>
        <table className="tm-table">
          <caption className="tm-visually-hidden">{t('Watermarks')}</caption>
          <thead>
            <tr>
              <th scope="col">{t('Subtask')}</th>
              <th scope="col">{t('Datetime of Watermark')}</th>
              <th scope="col" className="tm-num">
                {t('Watermark (ms)')}
              </th>
              <th scope="col" className="tm-num">
                {t('Watermark Skew')}
              </th>
              {isLive && (
                <th scope="col" className="tm-num">
                  {t('Lag')}
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {watermarks.map(([index, watermark]) => (
              <tr key={index}>
                <td>{index}</td>
                <td>{times.watermark(watermark)}</td>
                <td className="tm-num tm-mono">{typeof watermark === 'number' ? watermark : '–'}</td>
                <td className="tm-num">{typeof watermark === 'number' ? formatDuration(newest - watermark) : '–'}</td>
                {isLive && <td className="tm-num">{formatDuration(liveLagOf(watermark, live.now, time, vertexId))}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
