/** All TaskManagers. */

import { Skeleton } from '@mantine/core';
import { IconServerOff } from '@tabler/icons-react';
import { Link } from 'react-router';

import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { Panel } from '../components/Panel/Panel';
import { SortHeader } from '../components/SortHeader/SortHeader';
import type { TaskManagerSummary } from '../gen/contract';
import { useCluster } from '../hooks/useLive';
import { useServerNow } from '../hooks/useNow';
import { usePageTitle } from '../hooks/usePageTitle';
import { useSorting } from '../hooks/useSorting';
import { formatAge, formatBytes } from '../model/format';
import { sortBy } from '../model/jobList';
import { t } from '../texts/t';
import classes from './pages.module.css';
import { TaskManagerState } from './TaskManagerState';

const COLUMNS = ['id', 'state', 'free_slots', 'cpu_cores', 'physical_memory', 'last_heartbeat'] as const;

export function TaskManagersPage() {
  usePageTitle(t('Task Managers'));
  const { data: cluster, error } = useCluster();
  return (
    <>
      <h1 className={classes.pageTitle}>{t('Task Managers')}</h1>
      {cluster === undefined && error === null && <Skeleton height={200} radius={10} />}
      {cluster === undefined && error !== null && (
        <FailureState title={t('The TaskManagers cannot be shown')} message={error} />
      )}
      {cluster !== undefined && (
        <Panel flush label={t('Task Managers')}>
          {cluster.taskmanagers.length === 0 ? (
            <EmptyState icon={IconServerOff} title={t('No TaskManager is registered')}>
              {t(
                'Jobs wait until one registers. A TaskManager registers a few seconds after its start, once its Spark session is ready.',
              )}
            </EmptyState>
          ) : (
            <Rows taskmanagers={cluster.taskmanagers} />
          )}
        </Panel>
      )}
    </>
  );
}

function Rows({ taskmanagers }: { readonly taskmanagers: readonly TaskManagerSummary[] }) {
  const now = useServerNow();
  const { sorting, toggle } = useSorting('sort', COLUMNS, { column: 'id', descending: false });
  const header = { sorting, onToggle: toggle };
  return (
    <div className="tm-table-scroll">
      <table className="tm-table">
        <caption className="tm-visually-hidden">{t('Task Managers')}</caption>
        <thead>
          <tr>
            <SortHeader column="id" label={t('ID')} {...header} />
            <SortHeader column="state" label={t('Status')} {...header} />
            <SortHeader column="free_slots" label={t('Free Slots / All Slots')} numeric {...header} />
            <SortHeader column="cpu_cores" label={t('CPU Cores')} numeric {...header} />
            <SortHeader column="physical_memory" label={t('Free / Physical Memory')} numeric {...header} />
            <SortHeader column="last_heartbeat" label={t('Last Heartbeat')} numeric {...header} />
          </tr>
        </thead>
        <tbody>
          {sortBy(taskmanagers, sorting, (taskmanager, column) => taskmanager[column]).map((taskmanager) => (
            <tr key={taskmanager.id}>
              <td className="tm-grow">
                <Link to={`/taskmanagers/${encodeURIComponent(taskmanager.id)}`}>{taskmanager.id}</Link>
                <div className="tm-dim">
                  {t('{sparkMaster} · pid {pid}', { sparkMaster: taskmanager.spark_master, pid: taskmanager.pid })}
                </div>
              </td>
              <td>
                <TaskManagerState state={taskmanager.state} />
              </td>
              <td className="tm-num">
                {taskmanager.free_slots} / {taskmanager.slots}
              </td>
              <td className="tm-num">{taskmanager.cpu_cores}</td>
              <td className="tm-num">
                {formatBytes(taskmanager.free_memory)} / {formatBytes(taskmanager.physical_memory)}
              </td>
              <td className="tm-num">{formatAge(now - taskmanager.last_heartbeat)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
