/** What an autoscaler has decided, newest first. */

import type { ScalingDecision } from '../../gen/contract';
import { useTimes } from '../../hooks/useTimes';
import { changeText } from '../../model/autoscaler';
import { formatDuration } from '../../model/format';
import { plural, t } from '../../texts/t';
import classes from './Autoscaler.module.css';

export function Decisions({ decisions }: { readonly decisions: readonly ScalingDecision[] }) {
  const times = useTimes();
  return (
    <details className={classes.history}>
      <summary>
        {t('{decisions}, the last one at {decidedAt}', {
          decisions: plural(decisions.length, 'One decision', '{count} decisions'),
          decidedAt: times.dateTime(decisions[0]?.decided_at ?? 0),
        })}
      </summary>
      <div className="tm-table-scroll" tabIndex={0}>
        <table className={`tm-table ${classes.table ?? ''}`}>
          <caption className="tm-visually-hidden">{t('What the autoscaler has decided')}</caption>
          <thead>
            <tr>
              <th scope="col">{t('Time')}</th>
              <th scope="col">{t('Change')}</th>
              <th scope="col">{t('Reason')}</th>
              <th scope="col" className="tm-num">
                {t('Took')}
              </th>
            </tr>
          </thead>
          <tbody>
            {decisions.map(({ id, decided_at: at, cost_ms: cost, changes }) => (
              <tr key={id}>
                <td>{times.dateTime(at)}</td>
                <td className={classes.why}>
                  {Object.entries(changes).map(([vertex, change]) => (
                    <div key={vertex}>{changeText(change)}</div>
                  ))}
                </td>
                <td className={classes.why}>
                  {Object.entries(changes).map(([vertex, change]) => (
                    <div key={vertex}>{change.reason}</div>
                  ))}
                </td>
                <td className="tm-num">{cost === null ? '–' : formatDuration(cost)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
