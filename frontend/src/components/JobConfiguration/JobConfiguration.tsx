/** The options of a job. */

import { Skeleton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { fetchJobConfig } from '../../api/jobs';
import { t } from '../../texts/t';
import { FailureState } from '../EmptyState/EmptyState';
import { KeyValues } from '../KeyValues/KeyValues';
import { OptionTable } from '../OptionTable/OptionTable';
import { Panel } from '../Panel/Panel';

export function JobConfiguration({ jobId }: { readonly jobId: string }) {
  const { data, error, refetch } = useQuery({ queryKey: ['job-config', jobId], queryFn: () => fetchJobConfig(jobId) });
  if (error !== null) {
    return (
      <FailureState
        title={t('The configuration cannot be shown')}
        message={error.message}
        onRetry={() => void refetch()}
      />
    );
  }
  if (data === undefined) return <Skeleton height={240} radius={10} />;
  const execution = data['execution-config'];
  return (
    <>
      <Panel title={t('Execution Configuration')}>
        <KeyValues
          rows={[
            [t('Owner'), data.owner ?? '–'],
            [t('Parallelism'), execution['job-parallelism']],
            [t('Restart Strategy'), execution['restart-strategy']],
            [t('Object Reuse Mode'), execution['object-reuse-mode'] ? t('Enabled') : t('Disabled')],
          ]}
        />
      </Panel>
      <OptionTable
        title={t('User Configuration')}
        caption={t('Options of the job')}
        options={Object.entries(execution['user-config'])}
        none={t('All options have their defaults')}
      />
    </>
  );
}
