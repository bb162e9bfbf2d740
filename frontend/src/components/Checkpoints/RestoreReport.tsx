/** How the restored state was matched with the job's operators. */

import type { RestoredOperator, RestoreReport as Report } from '../../gen/contract';
import { t } from '../../texts/t';
import { Panel } from '../Panel/Panel';
import classes from './Checkpoints.module.css';

export function RestoreReport({ report }: { readonly report: Report }) {
  const kind = report.is_savepoint ? 'savepoint' : 'checkpoint';
  const rows: readonly (readonly [string, RestoredOperator])[] = [
    ...report.matched.map((operator) => [`restored${movedOf(operator)}`, operator] as const),
    ...report.dropped.map((operator) => [t('dropped: the job has no such operator'), operator] as const),
    ...report.new.map((operator) => [t('new: started without state'), operator] as const),
  ];
  return (
    <Panel title={t('State restored from {kind} {checkpointId}', { kind, checkpointId: report.checkpoint_id })} flush>
      <div className="tm-table-scroll" tabIndex={0}>
        <table className="tm-table">
          <caption className="tm-visually-hidden">{t('Operators and their state')}</caption>
          <thead>
            <tr>
              <th scope="col">{t('Operator')}</th>
              <th scope="col">{t('UID')}</th>
              <th scope="col">{t('State')}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(([what, { name, uid }]) => (
              <tr key={`${uid} ${name}`}>
                <td className={classes.name} title={name}>
                  {name}
                </td>
                <td className="tm-mono">{uid}</td>
                <td>{what}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function movedOf({ saved_parallelism: before, parallelism: now }: RestoredOperator): string {
  return before === now ? '' : t(', from parallelism {before} to {now}', { before: before ?? '?', now: now ?? '?' });
}
