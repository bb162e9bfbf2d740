/** The options of a job. */

import { Skeleton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { fetchJobConfig } from '../../api/jobs';
import { FailureState } from '../EmptyState/EmptyState';
import { KeyValues } from '../KeyValues/KeyValues';
import { OptionTable } from '../OptionTable/OptionTable';
import { Panel } from '../Panel/Panel';

export function JobConfiguration({ jobId }: { readonly jobId: string }) {
  const { data, error, refetch } = useQuery({ queryKey: ['job-config', jobId], queryFn: () => fetchJobConfig(jobId) });
  if (error !== null) {
    return (
      <FailureState title="The configuration cannot be shown" message={error.message} onRetry={() => void refetch()} />
    );
  }
  if (data === undefined) return <Skeleton height={240} radius={10} />;
  const execution = data['execution-config'];
  return (
    <>
      <Panel title="Execution Configuration">
        <KeyValues
          rows={[
            ['Owner', data.owner ?? '–'],
            ['Parallelism', execution['job-parallelism']],
            ['Restart Strategy', execution['restart-strategy']],
            ['Object Reuse Mode', execution['object-reuse-mode'] ? 'Enabled' : 'Disabled'],
          ]}
        />
      </Panel>
      <OptionTable
        title="User Configuration"
        caption="Options of the job"
        options={Object.entries(execution['user-config'])}
        none="All options have their defaults"
      />
    </>
  );
}
