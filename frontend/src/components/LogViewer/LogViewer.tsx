/** Standard output and logs of a job's slots: all of them by time, or a file to follow, search or save. */

import { Select, Skeleton } from '@mantine/core';
import { IconFileText } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';

import { fetchLogFiles } from '../../api/jobs';
import type { LogFile } from '../../gen/contract';
import { useQueryParam } from '../../hooks/useQueryParam';
import { formatBytes } from '../../model/format';
import { t } from '../../texts/t';
import { EmptyState, FailureState } from '../EmptyState/EmptyState';
import { Panel } from '../Panel/Panel';
import { JobLogText, type NamedVertex } from './JobLogText';
import { LogText } from './LogText';

/** In place of a file. */
const ALL = '';

interface Props {
  readonly jobId: string;
  readonly isLive: boolean;
  readonly vertices: readonly NamedVertex[];
}

export function LogViewer({ jobId, isLive, vertices }: Props) {
  const [chosen, choose] = useQueryParam('log');
  const { data, error, refetch } = useQuery({
    queryKey: ['logs', jobId],
    queryFn: () => fetchLogFiles(jobId),
    refetchInterval: isLive ? 5_000 : false,
  });
  if (error !== null && data === undefined) {
    return (
      <FailureState title={t('The logs cannot be shown')} message={error.message} onRetry={() => void refetch()} />
    );
  }
  if (data === undefined) return <Skeleton height={420} radius={10} />;
  const files = data.files.toSorted((a, b) => b.attempt - a.attempt || a.slot - b.slot || a.name.localeCompare(b.name));
  const current = files.find(({ name }) => name === chosen);
  if (files.length === 0) {
    return (
      <Panel label={t('Logs')}>
        <EmptyState icon={IconFileText} title={t('No logs yet')}>
          {t('They appear here once a slot of the job prints or logs something.')}
        </EmptyState>
      </Panel>
    );
  }
  const attempts = [...new Set(files.map((file) => file.attempt))];
  const picker = (
    <Select
      aria-label={t('Log file')}
      size="xs"
      w={260}
      allowDeselect={false}
      searchable={files.length > 12}
      value={current?.name ?? ALL}
      onChange={(value) => choose(value === ALL ? null : value)}
      data={[
        { value: ALL, label: t('All logs, by time') },
        ...attempts.map((each) => ({
          group: t('Attempt {each}', { each }),
          items: files
            .filter((file) => file.attempt === each)
            .map((file) => ({ value: file.name, label: describe(file) })),
        })),
      ]}
      comboboxProps={{ width: 320, position: 'bottom-start' }}
    />
  );
  if (current === undefined) {
    return <JobLogText jobId={jobId} isLive={isLive} files={files} vertices={vertices} picker={picker} />;
  }
  return <LogText key={current.name} jobId={jobId} name={current.name} isLive={isLive} picker={picker} />;
}

function describe(file: LogFile): string {
  // files that an earlier release rotated have a number after their name
  const rotated = /\.\d+$/.exec(file.name)?.[0] ?? '';
  const kind = (file.kind === 'out' ? 'output' : 'log') + rotated;
  return t('Attempt {attempt} · slot {slot} · {kind} · {size}', {
    attempt: file.attempt,
    slot: file.slot,
    kind,
    size: formatBytes(file.size),
  });
}
