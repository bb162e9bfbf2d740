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
    if (error !== null) return <FailureState title="The TaskManager cannot be shown" message={error} />;
    return <Skeleton height={300} radius={10} />;
  }
  const taskmanager = cluster.taskmanagers.find(({ id }) => id === taskmanagerId);
  if (taskmanager === undefined) {
    return (
      <NotFoundPage title="This TaskManager is not registered">
        It has left the cluster or was never part of it.
      </NotFoundPage>
    );
  }
  return (
    <>
      <nav className={classes.crumbs} aria-label="Breadcrumb">
        <Link to="/taskmanagers">Task Managers</Link>
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
    <Panel title="Process">
      <KeyValues
        rows={[
          ['ID', <CopyText key="id" text={taskmanager.id} label="id" />],
          ['Process ID', taskmanager.pid],
          [
            'Spark Master',
            <span key="master" className="tm-mono">
              {taskmanager.spark_master}
            </span>,
          ],
          ['Registered', times.dateTime(taskmanager.registered_at)],
          ['Last Heartbeat', formatAge(now - taskmanager.last_heartbeat)],
          ['CPU Cores', taskmanager.cpu_cores],
          [
            'Physical Memory',
            <div key="memory">
              {formatBytes(used)} of {formatBytes(taskmanager.physical_memory)} in use
              <Progress
                mt={6}
                size={6}
                value={taskmanager.physical_memory > 0 ? (100 * used) / taskmanager.physical_memory : 0}
                aria-label="Memory in use"
              />
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
    <Panel title={`Slots: ${taskmanager.free_slots} of ${taskmanager.slots} free`} flush>
      {allocated.length === 0 ? (
        <EmptyState compact icon={IconStack2} title="No slot is in use" />
      ) : (
        <div className="tm-table-scroll">
          <table className="tm-table">
            <caption className="tm-visually-hidden">Slots in use</caption>
            <thead>
              <tr>
                <th scope="col">Job</th>
                <th scope="col">Process</th>
                <th scope="col" className="tm-num">
                  Tasks
                </th>
                <th scope="col" className="tm-num">
                  Memory
                </th>
                <th scope="col" className="tm-num">
                  Peak
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
                            {slots.length} slots · {formatBytes(memory)}
                          </div>
                        )}
                      </td>
                    )}
                    <td>
                      {slot.pid ?? NOTHING} <span className="tm-dim">slot {slot.slot}</span>
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
