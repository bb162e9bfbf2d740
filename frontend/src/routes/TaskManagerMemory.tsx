/** Memory of a TaskManager's machine and of the processes of its slots, over the last hour. */

import { Skeleton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { fetchTaskManagerHistory } from '../api/metrics';
import { Panel } from '../components/Panel/Panel';
import { TimeChart } from '../components/TimeChart/TimeChart';
import type { TaskManagerSummary } from '../gen/contract';
import { formatBytes } from '../model/format';
import { niceBytes } from '../model/history';
import { connection } from '../store/socket';
import { t } from '../texts/t';

const HOUR_MS = 3_600_000;
const REFRESH_MS = 15_000;

export function TaskManagerMemory({ taskmanager }: { readonly taskmanager: TaskManagerSummary }) {
  const { data, error } = useQuery({
    queryKey: ['taskmanager-history', taskmanager.id],
    queryFn: () => fetchTaskManagerHistory(taskmanager.id, Date.now() + connection.clockOffset - HOUR_MS),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Panel title={t('Memory, Last Hour')}>
      {data === undefined ? (
        error === null ? (
          <Skeleton height={160} />
        ) : (
          <p className="tm-dim">{error.message}</p>
        )
      ) : data.times.length === 0 ? (
        <p className="tm-dim">
          {data.is_available ? t('Nothing has been measured yet.') : t('Redis does not answer in time.')}
        </p>
      ) : (
        <TimeChart
          title={t('Memory')}
          times={data.times}
          windowMs={HOUR_MS}
          format={formatBytes}
          ceilingOf={niceBytes}
          series={[
            { name: t('Machine, in use'), values: data.series.memory_used ?? [] },
            { name: t('Slots'), values: data.series.slots_memory ?? [] },
          ]}
        />
      )}
    </Panel>
  );
}
