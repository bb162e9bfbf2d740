/** The executors of a TaskManager's Spark session, as Spark's own page has them. */

import { Panel } from '../components/Panel/Panel';
import { StateBadge } from '../components/StateBadge/StateBadge';
import type { SparkExecutor } from '../gen/contract';
import { formatBytes, formatCount, formatDuration } from '../model/format';
import { t } from '../texts/t';

export function SparkExecutors({ executors }: { readonly executors: readonly SparkExecutor[] }) {
  // a TaskManager that has begun a moment ago, or of an earlier release
  if (executors.length === 0) return null;
  return (
    <Panel title={t('Spark Executors')} flush>
      <div className="tm-table-scroll" tabIndex={0}>
        <table className="tm-table">
          <caption className="tm-visually-hidden">{t('Spark Executors')}</caption>
          <thead>
            <tr>
              <th scope="col">{t('ID')}</th>
              <th scope="col">{t('Address')}</th>
              <th scope="col">{t('State')}</th>
              <th scope="col" className="tm-num">
                {t('Cores')}
              </th>
              <th scope="col" className="tm-num">
                {t('Active Tasks')}
              </th>
              <th scope="col" className="tm-num">
                {t('Completed Tasks')}
              </th>
              <th scope="col" className="tm-num">
                {t('Failed Tasks')}
              </th>
              <th scope="col" className="tm-num">
                {t('Storage Memory')}
              </th>
              <th scope="col" className="tm-num">
                {t('Task Time')}
              </th>
              <th scope="col" className="tm-num">
                {t('GC Time')}
              </th>
            </tr>
          </thead>
          <tbody>
            {executors.map((executor) => (
              <tr key={executor.id}>
                <td>{executor.id}</td>
                <td className="tm-mono tm-grow">{executor.address}</td>
                <td>
                  <StateBadge
                    state={executor.is_active ? 'RUNNING' : 'CANCELED'}
                    text={executor.is_active ? 'ACTIVE' : 'DEAD'}
                  />
                </td>
                <td className="tm-num">{executor.cores}</td>
                <td className="tm-num tm-live">{formatCount(executor.active_tasks)}</td>
                <td className="tm-num">{formatCount(executor.completed_tasks)}</td>
                <td className="tm-num">{formatCount(executor.failed_tasks)}</td>
                <td className="tm-num">
                  {t('{used} of {all}', {
                    used: formatBytes(executor.memory_used),
                    all: formatBytes(executor.memory_max),
                  })}
                </td>
                <td className="tm-num">{formatDuration(executor.duration)}</td>
                <td className="tm-num">{formatDuration(executor.gc_time)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
