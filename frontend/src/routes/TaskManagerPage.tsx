/** A TaskManager: its machine, its memory over time, the jobs that hold its slots, and the executors of its Spark session. */

import { Progress, Skeleton } from '@mantine/core';
import { IconChevronRight, IconStack2 } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'react-router';

import { fetchTaskManager } from '../api/jobs';
import { CopyText } from '../components/CopyText/CopyText';
import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { KeyValues } from '../components/KeyValues/KeyValues';
import { Panel } from '../components/Panel/Panel';
import type { AllocatedSlot, TaskManagerSummary } from '../gen/contract';
import { useCluster } from '../hooks/useLive';
import { useServerNow } from '../hooks/useNow';
import { usePageTitle } from '../hooks/usePageTitle';
import { useTimes } from '../hooks/useTimes';
import type { Cluster } from '../model/cluster';
import { formatAge, formatBytes, NOTHING } from '../model/format';
import { slotsByJob } from '../model/jobSlots';
import { rich } from '../texts/rich';
import { t } from '../texts/t';
import { NotFoundPage } from './NotFoundPage';
import classes from './pages.module.css';
import { SparkExecutors } from './SparkExecutors';
import { TaskManagerMemory } from './TaskManagerMemory';
import { TaskManagerState } from './TaskManagerState';

export function TaskManagerPage() {
  const { taskmanagerId = '' } = useParams();
  usePageTitle(taskmanagerId);
  const { data: cluster, error } = useCluster();
  if (cluster === undefined) {
    if (error !== null) return <FailureState title={t('The TaskManager cannot be shown')} message={error} />;
    return <Skeleton height={300} radius={10} />;
  }
  const taskmanager = cluster.taskmanagers.find(({ id }) => id === taskmanagerId);
  if (taskmanager === undefined) {
    return (
      <NotFoundPage title={t('This TaskManager is not registered')}>
        {t('It has left the cluster or was never part of it.')}
      </NotFoundPage>
    );
  }
  return (
    <>
      <nav className={classes.crumbs} aria-label={t('Breadcrumb')}>
        <Link to="/taskmanagers">{t('Task Managers')}</Link>
        <IconChevronRight size={14} aria-hidden />
        <span className="tm-mono">{taskmanager.id}</span>
      </nav>
      <div className={classes.titleRow}>
        <h1 className={classes.pageTitle}>{taskmanager.host}</h1>
        <TaskManagerState state={taskmanager.state} />
      </div>
      <Details taskmanager={taskmanager} cluster={cluster} />
    </>
  );
}

interface DetailsProps {
  readonly taskmanager: TaskManagerSummary;
  readonly cluster: Cluster;
}

function Details({ taskmanager, cluster }: DetailsProps) {
  const { data } = useQuery({
    queryKey: ['taskmanager', taskmanager.id],
    queryFn: () => fetchTaskManager(taskmanager.id),
    refetchInterval: 5_000,
  });
  return (
    <div className={classes.column}>
      <div className={classes.split}>
        <Facts taskmanager={taskmanager} />
        <Slots taskmanager={taskmanager} cluster={cluster} allocated={data?.allocatedSlots ?? []} />
      </div>
      <TaskManagerMemory taskmanager={taskmanager} />
      <SparkExecutors executors={data?.sparkExecutors ?? []} />
    </div>
  );
}

function Facts({ taskmanager }: { readonly taskmanager: TaskManagerSummary }) {
  const now = useServerNow();
  const times = useTimes();
  const used = taskmanager.physical_memory - taskmanager.free_memory;
  return (
    <Panel title={t('Process')}>
      <KeyValues
        rows={[
          ['ID', <CopyText key="id" text={taskmanager.id} label={t('id')} />],
          [t('Process ID'), taskmanager.pid],
          [
            t('Spark Master'),
            <span key="master" className="tm-mono">
              {taskmanager.spark_master}
            </span>,
          ],
          [t('Registered'), times.dateTime(taskmanager.registered_at)],
          [t('Last Heartbeat'), formatAge(now - taskmanager.last_heartbeat)],
          [t('CPU Cores'), taskmanager.cpu_cores],
          [
            t('Physical Memory'),
            <div key="memory">
              {rich('{used} of {physicalMemory} in use{progress}', {
                used: formatBytes(used),
                physicalMemory: formatBytes(taskmanager.physical_memory),
                progress: (
                  <Progress
                    mt={6}
                    size={6}
                    value={taskmanager.physical_memory > 0 ? (100 * used) / taskmanager.physical_memory : 0}
                    aria-label={t('Memory in use')}
                  />
                ),
              })}
            </div>,
          ],
        ]}
      />
    </Panel>
  );
}

interface SlotsProps extends DetailsProps {
  readonly allocated: readonly AllocatedSlot[];
}

function Slots({ taskmanager, cluster, allocated }: SlotsProps) {
  const names = new Map(cluster.jobs.map((job) => [job.id, job.name]));
  return (
    <Panel
      title={t('Slots: {freeSlots} of {slots} free', { freeSlots: taskmanager.free_slots, slots: taskmanager.slots })}
      flush
    >
      {allocated.length === 0 ? (
        <EmptyState compact icon={IconStack2} title={t('No slot is in use')} />
      ) : (
        <div className="tm-table-scroll" tabIndex={0}>
          <table className="tm-table">
            <caption className="tm-visually-hidden">{t('Slots in use')}</caption>
            <thead>
              <tr>
                <th scope="col">{t('Job')}</th>
                <th scope="col">{t('Process')}</th>
                <th scope="col" className="tm-num">
                  {t('Tasks')}
                </th>
                <th scope="col" className="tm-num">
                  {t('Memory')}
                </th>
                <th scope="col" className="tm-num">
                  {t('Peak')}
                </th>
              </tr>
            </thead>
            <tbody>
              {slotsByJob(allocated).flatMap(({ jobId, slots, memory }) =>
                slots.map((slot, index) => (
                  <tr key={`${jobId}-${index}`}>
                    {index === 0 && (
                      <td className="tm-grow" rowSpan={slots.length}>
                        <Link to={`/jobs/${jobId}`}>{names.get(jobId) ?? jobId}</Link>
                        {slots.length > 1 && (
                          <div className="tm-dim">
                            {t('{count} slots · {memory}', { count: slots.length, memory: formatBytes(memory) })}
                          </div>
                        )}
                      </td>
                    )}
                    <td>
                      {slot.pid ?? NOTHING} <span className="tm-dim">{t('slot {slot}', { slot: slot.slot })}</span>
                    </td>
                    <td className="tm-num">{slot.assignedTasks}</td>
                    <td className="tm-num tm-live">{formatBytes(slot.memory.resident)}</td>
                    <td className="tm-num">{formatBytes(slot.memory.peak)}</td>
                  </tr>
                )),
              )}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
