/** The options of a job. */

import { Skeleton, TextInput } from '@mantine/core';
import { IconAdjustments, IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { fetchJobConfig } from '../../api/jobs';
import { EmptyState, FailureState } from '../EmptyState/EmptyState';
import { KeyValues } from '../KeyValues/KeyValues';
import { Panel } from '../Panel/Panel';

export function JobConfiguration({ jobId }: { readonly jobId: string }) {
  const [filter, setFilter] = useState('');
  const { data, error, refetch } = useQuery({ queryKey: ['job-config', jobId], queryFn: () => fetchJobConfig(jobId) });
  if (error !== null) {
    return (
      <FailureState title="The configuration cannot be shown" message={error.message} onRetry={() => void refetch()} />
    );
  }
  if (data === undefined) return <Skeleton height={240} radius={10} />;
  const execution = data['execution-config'];
  const options = Object.entries(execution['user-config']).toSorted(([a], [b]) => a.localeCompare(b));
  const shown = options.filter(([key, value]) => `${key} ${value}`.toLowerCase().includes(filter.toLowerCase()));
  return (
    <>
      <Panel title="Execution Configuration">
        <KeyValues
          rows={[
            ['Parallelism', execution['job-parallelism']],
            ['Restart Strategy', execution['restart-strategy']],
            ['Object Reuse Mode', execution['object-reuse-mode'] ? 'Enabled' : 'Disabled'],
          ]}
        />
      </Panel>
      <Panel
        title="User Configuration"
        flush
        actions={
          options.length > 0 && (
            <TextInput
              size="xs"
              w={240}
              placeholder="Filter options"
              aria-label="Filter options"
              leftSection={<IconSearch size={15} />}
              value={filter}
              onChange={(event) => setFilter(event.currentTarget.value)}
            />
          )
        }
      >
        {shown.length === 0 ? (
          <EmptyState
            compact
            icon={IconAdjustments}
            title={options.length === 0 ? 'All options have their defaults' : 'No option matches the filter'}
          />
        ) : (
          <div className="tm-table-scroll" tabIndex={0}>
            <table className="tm-table">
              <caption className="tm-visually-hidden">Options of the job</caption>
              <thead>
                <tr>
                  <th scope="col">Option</th>
                  <th scope="col">Value</th>
                </tr>
              </thead>
              <tbody>
                {shown.map(([key, value]) => (
                  <tr key={key}>
                    <td className="tm-mono">{key}</td>
                    <td className="tm-mono tm-grow" title={value}>
                      {value}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Panel>
    </>
  );
}
