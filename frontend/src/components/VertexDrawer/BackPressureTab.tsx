/** How each subtask spends its time, and Flink's level of backpressure for it. */

import type { LiveVertex } from '../../gen/contract';
import { backPressureLevel } from '../../model/backPressure';
import { NOTHING } from '../../model/format';
import { metricsOf, subtasksOf } from '../../model/job';
import { t } from '../../texts/t';
import { LoadBar } from '../LoadBar/LoadBar';
import { StateBadge } from '../StateBadge/StateBadge';
import { OfSubtasks } from './OfSubtasks';
import classes from './VertexDrawer.module.css';

const LOOKS = { OK: 'RUNNING', LOW: 'RESTARTING', HIGH: 'FAILED' } as const;

export function BackPressureTab({ vertexId }: { readonly vertexId: string }) {
  return <OfSubtasks vertexId={vertexId}>{(live) => <Table live={live} />}</OfSubtasks>;
}

function Table({ live }: { readonly live: LiveVertex }) {
  return (
    <>
      <p className={classes.note}>
        {t(
          'OK: backpressured at most 10% of the time; LOW: at most 50%; HIGH: more. A HIGH vertex waits for a vertex downstream.',
        )}
      </p>
      <div className="tm-table-scroll" tabIndex={0}>
        <table className="tm-table">
          <caption className="tm-visually-hidden">{t('Backpressure')}</caption>
          <thead>
            <tr>
              <th scope="col">{t('Subtask')}</th>
              <th scope="col">{t('Backpressure Status')}</th>
              <th scope="col">{t('Busy / Backpressured / Idle')}</th>
            </tr>
          </thead>
          <tbody>
            {subtasksOf(live.subtasks).map(({ index, state }) => {
              const figures = live.figures[index];
              if (figures === undefined) return null;
              const metrics = metricsOf(figures);
              const level = backPressureLevel(metrics.back_pressured);
              return (
                <tr key={index}>
                  <td>{index}</td>
                  <td>{state === 'RUNNING' ? <StateBadge state={LOOKS[level]} text={level} /> : NOTHING}</td>
                  <td className={classes.bars}>
                    <LoadBar metrics={metrics} isRunning={state === 'RUNNING'} />
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </>
  );
}
