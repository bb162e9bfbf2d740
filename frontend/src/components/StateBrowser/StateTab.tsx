/** The state of a job per key, as of its newest checkpoint or of another snapshot of it. */

import { Button, Select, Skeleton } from '@mantine/core';
import { IconDatabase, IconRefresh } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';

import { fetchRestorePoints } from '../../api/checkpoints';
import { fetchState } from '../../api/state';
import type { RestorePoint, StateContents } from '../../gen/contract';
import { useQueryParam } from '../../hooks/useQueryParam';
import { type Times, useTimes } from '../../hooks/useTimes';
import { nameOf } from '../../model/stateBrowser';
import { t } from '../../texts/t';
import { EmptyState, FailureState } from '../EmptyState/EmptyState';
import { Panel } from '../Panel/Panel';
import classes from './StateBrowser.module.css';
import { StateForm } from './StateForm';

export function StateTab({ jobId }: { readonly jobId: string }) {
  const times = useTimes();
  const [param, setSnapshot] = useQueryParam('snapshot');
  const snapshot = param ?? '';
  const client = useQueryClient();
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: ['state', jobId, snapshot],
    queryFn: () => fetchState(jobId, snapshot),
    refetchOnWindowFocus: false,
    retry: false,
  });
  if (data === undefined && error === null) {
    return <Skeleton height={320} radius={10} role="status" aria-busy="true" aria-label={t('Loading')} />;
  }
  const asOf = data?.snapshot ?? null;
  return (
    <>
      <Panel
        title={t('Snapshot')}
        actions={
          <Button
            size="compact-sm"
            variant="default"
            leftSection={<IconRefresh size={14} />}
            loading={isFetching}
            onClick={() => {
              void refetch();
              void client.invalidateQueries({ queryKey: pointsKey(jobId) });
            }}
          >
            {t('Refresh')}
          </Button>
        }
      >
        <SnapshotSelect jobId={jobId} value={snapshot} onChange={setSnapshot} times={times} />
        {asOf !== null && (
          <p className={classes.asOf}>
            {t('As of {timestamp}, {asOf}', { timestamp: times.dateTime(asOf.timestamp), asOf: nameOf(asOf) })}
          </p>
        )}
      </Panel>
      {error !== null ? (
        <FailureState title={t('The state cannot be shown')} message={error.message} onRetry={() => void refetch()} />
      ) : (
        <Contents jobId={jobId} snapshot={snapshot} contents={data} />
      )}
    </>
  );
}

interface ContentsProps {
  readonly jobId: string;
  readonly snapshot: string;
  readonly contents: StateContents;
}

function Contents({ jobId, snapshot, contents }: ContentsProps) {
  if (contents.operators.length > 0) {
    return <StateForm jobId={jobId} snapshot={snapshot} operators={contents.operators} />;
  }
  return (
    <Panel label={t('State')}>
      {contents.snapshot === null ? (
        <NoCheckpoint jobId={jobId} />
      ) : (
        <EmptyState icon={IconDatabase} title={t('No keyed state')}>
          {t('No operator of the job had state per key.')}
        </EmptyState>
      )}
    </Panel>
  );
}

/** Checkpoints of a job that has finished are gone, its savepoints are not. */
function NoCheckpoint({ jobId }: { readonly jobId: string }) {
  const hasOthers = usePoints(jobId).length > 0;
  return (
    <EmptyState icon={IconDatabase} title={hasOthers ? t('No completed checkpoint') : t('No completed checkpoint yet')}>
      {hasOthers
        ? t('None is kept. Choose a savepoint above.')
        : t('State is shown as of a completed checkpoint or a savepoint.')}
    </EmptyState>
  );
}

interface SelectProps {
  readonly jobId: string;
  readonly value: string;
  readonly onChange: (snapshot: string | null) => void;
  readonly times: Times;
}

function SnapshotSelect({ jobId, value, onChange, times }: SelectProps) {
  const points = usePoints(jobId);
  const listed = points.map((point) => ({ value: point.location, label: labelOf(point, times) }));
  // one that a link names
  const isListed = value === '' || points.some(({ location }) => location === value);
  return (
    <Select
      label={t('Checkpoint or Savepoint')}
      allowDeselect={false}
      data={[{ value: '', label: t('Newest checkpoint') }, ...listed, ...(isListed ? [] : [{ value, label: value }])]}
      value={value}
      onChange={(chosen) => onChange(chosen === '' ? null : chosen)}
    />
  );
}

const pointsKey = (jobId: string) => ['restore-points', jobId];

function usePoints(jobId: string): RestorePoint[] {
  const { data } = useQuery({ queryKey: pointsKey(jobId), queryFn: () => fetchRestorePoints(jobId) });
  return (data?.points ?? []).filter(({ kind }) => kind !== 'start');
}

function labelOf(point: RestorePoint, times: Times): string {
  const name = point.kind === 'savepoint' ? t('Savepoint') : t('Checkpoint');
  return `${name} ${point.checkpoint_id ?? ''} · ${times.dateTime(point.timestamp)}`;
}
