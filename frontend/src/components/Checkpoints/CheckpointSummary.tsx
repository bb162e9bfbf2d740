/** Summary of the job's completed checkpoints. */

import type { CheckpointSummary as Summary, JobCheckpoints, SummarisedQuantity } from '../../gen/contract';
import { formatBytes, formatDuration, NOTHING } from '../../model/format';
import { t } from '../../texts/t';
import { Panel } from '../Panel/Panel';

const ROWS: readonly (readonly [SummarisedQuantity, string, (value: number) => string])[] = [
  ['end_to_end_duration', t('End to End Duration'), formatDuration],
  ['checkpointed_size', t('Checkpointed Data Size'), formatBytes],
  ['state_size', t('Full Checkpoint Data Size'), formatBytes],
  ['processed_data', t('Processed in-flight data'), formatBytes],
  ['persisted_data', t('Persisted in-flight data'), formatBytes],
];
const COLUMNS: readonly (readonly [keyof Summary, string])[] = [
  ['min', t('Minimum')],
  ['avg', t('Average')],
  ['max', t('Maximum')],
  ['p50', 'p50'],
  ['p90', 'p90'],
  ['p99', 'p99'],
  ['p999', 'p99.9'],
];

export function CheckpointSummary({ summary }: { readonly summary: JobCheckpoints['summary'] }) {
  return (
    <Panel title={t('Summary')} flush>
      <div className="tm-table-scroll" tabIndex={0}>
        <table className="tm-table">
          <caption className="tm-visually-hidden">{t('Summary of completed checkpoints')}</caption>
          <thead>
            <tr>
              <th scope="col">{t('Quantity')}</th>
              {COLUMNS.map(([key, label]) => (
                <th key={key} scope="col" className="tm-num">
                  {label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {ROWS.map(([quantity, label, format]) => (
              <tr key={quantity}>
                <th scope="row">{label}</th>
                {COLUMNS.map(([key]) => {
                  const value = summary[quantity]?.[key];
                  return (
                    <td key={key} className="tm-num">
                      {value === undefined ? NOTHING : format(value)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
