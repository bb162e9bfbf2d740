/** The operators of a vertex in the order of their chain, with figures of their own: a topic that this subscribes to. */

import { useOperatorsArrival, useOperatorsPart } from '../../hooks/useJob';
import { useTimes } from '../../hooks/useTimes';
import { NOTHING, formatCount, formatRate } from '../../model/format';
import { type Operator, metricsOfOperator } from '../../model/job';
import { t } from '../../texts/t';
import classes from './VertexDrawer.module.css';

export function OperatorTable({ operators }: { readonly operators: readonly Operator[] }) {
  useOperatorsArrival();
  return (
    <div
      className={`tm-table-scroll ${classes.operators ?? ''}`}
      tabIndex={0}
      role="region"
      aria-label={t('Operators')}
    >
      <table className="tm-table">
        <caption className="tm-visually-hidden">{t('Operators')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('Operator')}</th>
            <th scope="col" className="tm-num">
              {t('Records Received')}
            </th>
            <th scope="col" className="tm-num">
              {t('Records Sent')}
            </th>
            <th scope="col">{t('Watermark')}</th>
          </tr>
        </thead>
        <tbody>
          {operators.map((operator) => (
            <Row key={operator.uid} operator={operator} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ operator: { uid, name, input } }: { readonly operator: Operator }) {
  const times = useTimes();
  const metrics = useOperatorsPart((job) => metricsOfOperator(job, uid));
  const sideOutput = input?.side_output ?? '';
  return (
    <tr>
      <td className={classes.operator}>
        {name}
        <div className="tm-mono tm-dim">{uid}</div>
        {sideOutput !== '' && <div className="tm-dim">{t('reads the side output {sideOutput}', { sideOutput })}</div>}
      </td>
      <td className="tm-num">
        {formatCount(metrics?.records_in ?? null)}
        <div className="tm-live tm-dim">{formatRate(metrics?.records_in_per_second ?? null)}</div>
      </td>
      <td className="tm-num">
        {formatCount(metrics?.records_out ?? null)}
        <div className="tm-live tm-dim">{formatRate(metrics?.records_out_per_second ?? null)}</div>
      </td>
      <td className="tm-live">{metrics === undefined ? NOTHING : times.watermark(metrics.watermark)}</td>
    </tr>
  );
}
