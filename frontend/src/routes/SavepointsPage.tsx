/** All savepoints with job, time, size and actions. */

import { Button, Group, Modal, Skeleton, Stack, Text, TextInput, Tooltip } from '@mantine/core';
import { IconBookmark, IconDatabase, IconPlayerPlay, IconSearch, IconTrash } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useNavigate } from 'react-router';

import { fetchRestorePoints, newTriggerId } from '../api/checkpoints';
import { disposeSavepoint, fetchSavepoints } from '../api/savepoints';
import { CopyText } from '../components/CopyText/CopyText';
import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { Panel } from '../components/Panel/Panel';
import type { Savepoint } from '../gen/contract';
import { usePageTitle } from '../hooks/usePageTitle';
import { useQueryParam } from '../hooks/useQueryParam';
import { useRole } from '../hooks/useSession';
import { useSingleFlight } from '../hooks/useSingleFlight';
import { useTimes } from '../hooks/useTimes';
import { mayOperate, maySubmit } from '../model/access';
import { formatBytes } from '../model/format';
import classes from './pages.module.css';
import own from './SavepointsPage.module.css';

const KEY = ['savepoints'];
const READ_MS = 10_000;

export function SavepointsPage() {
  usePageTitle('Savepoints');
  const { data, error, refetch } = useQuery({ queryKey: KEY, queryFn: fetchSavepoints, refetchInterval: READ_MS });
  const [filter, setFilter] = useQueryParam('filter');
  const words = (filter ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  const shown = (data?.savepoints ?? []).filter((savepoint) => words.every((word) => textOf(savepoint).includes(word)));
  return (
    <>
      <h1 className={classes.pageTitle}>Savepoints</h1>
      {data === undefined && error === null && <Skeleton height={200} radius={10} />}
      {data === undefined && error !== null && (
        <FailureState title="The savepoints cannot be listed" message={error.message} onRetry={() => void refetch()} />
      )}
      {data !== undefined && (
        <Panel
          flush
          title="All Savepoints"
          actions={
            <TextInput
              size="xs"
              w={260}
              placeholder="Filter by path, job or user"
              aria-label="Filter savepoints"
              leftSection={<IconSearch size={15} />}
              value={filter ?? ''}
              onChange={(event) => setFilter(event.currentTarget.value === '' ? null : event.currentTarget.value)}
            />
          }
        >
          {data.savepoints.length > 0 && shown.length === 0 ? (
            <EmptyState compact icon={IconSearch} title="No savepoint matches the filter" />
          ) : data.savepoints.length === 0 ? (
            <EmptyState icon={IconBookmark} title="No savepoint yet">
              Take one from the Actions of a running job, or stop a job with one.
            </EmptyState>
          ) : (
            <Rows savepoints={shown} />
          )}
        </Panel>
      )}
    </>
  );
}

function textOf({ location, job_id: id, job_name: name, requested_by: user }: Savepoint): string {
  return [location, id, name, user ?? ''].join(' ').toLowerCase();
}

function Rows({ savepoints }: { readonly savepoints: readonly Savepoint[] }) {
  const times = useTimes();
  const [doomed, setDoomed] = useState<Savepoint | null>(null);
  return (
    <div className="tm-table-scroll">
      <table className="tm-table">
        <caption className="tm-visually-hidden">Savepoints</caption>
        <thead>
          <tr>
            <th scope="col">Savepoint</th>
            <th scope="col">Job</th>
            <th scope="col">Kind</th>
            <th scope="col">Taken</th>
            <th scope="col" className="tm-num">
              Size
            </th>
            <th scope="col">
              <span className="tm-visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {savepoints.map((savepoint) => (
            <tr key={savepoint.location}>
              <td className={own.location}>
                <CopyText text={savepoint.location} label="path" />
                {savepoint.exists === false && <div className="tm-dim">Files are missing</div>}
              </td>
              <td className={own.job}>
                <Link to={`/jobs/${savepoint.job_id}`} title={savepoint.job_name}>
                  {savepoint.job_name}
                </Link>
              </td>
              <td>
                {savepoint.kind === 'stop' ? 'Stop with savepoint' : 'Savepoint'}
                <div className="tm-dim">{savepoint.format.toLowerCase()}</div>
              </td>
              <td>
                {times.dateTime(savepoint.created_at)}
                {savepoint.requested_by !== null && <div className="tm-dim">by {savepoint.requested_by}</div>}
              </td>
              <td className="tm-num">{formatBytes(savepoint.size)}</td>
              <td>
                <Actions savepoint={savepoint} onDispose={() => setDoomed(savepoint)} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {doomed !== null && <DisposeModal savepoint={doomed} onClose={() => setDoomed(null)} />}
    </div>
  );
}

interface ActionsProps {
  readonly savepoint: Savepoint;
  readonly onDispose: () => void;
}

function Actions({ savepoint, onDispose }: ActionsProps) {
  const role = useRole();
  const navigate = useNavigate();
  const { mutate: restore, isPending } = useMutation({
    mutationFn: () => fetchRestorePoints(savepoint.job_id),
    onSuccess: ({ program }) => {
      const query = new URLSearchParams({ savepoint: savepoint.location });
      if (program !== null) {
        query.set('program', program.id);
        query.set('again', savepoint.job_id);
      }
      void navigate(`/submit?${query.toString()}`);
    },
  });
  const isThere = savepoint.exists !== false;
  const whyKept =
    savepoint.needed_by !== null ? 'A job or a deployment that has not ended may have to restore from it' : null;
  const whyNot = mayOperate(role) ? whyKept : 'Requires the role operator';
  return (
    <Stack gap={6}>
      <Tooltip label="Requires the role developer" disabled={maySubmit(role)}>
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconPlayerPlay size={14} />}
          loading={isPending}
          disabled={!maySubmit(role) || !isThere}
          onClick={() => restore()}
        >
          Restore
        </Button>
      </Tooltip>
      {isThere && (
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconDatabase size={14} />}
          component={Link}
          to={`/jobs/${savepoint.job_id}?${new URLSearchParams({ tab: 'state', snapshot: savepoint.location }).toString()}`}
        >
          State
        </Button>
      )}
      <Tooltip label={whyNot ?? ''} disabled={whyNot === null}>
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconTrash size={14} />}
          disabled={whyNot !== null || !isThere}
          onClick={onDispose}
        >
          Dispose
        </Button>
      </Tooltip>
    </Stack>
  );
}

function DisposeModal({ savepoint, onClose }: { readonly savepoint: Savepoint; readonly onClose: () => void }) {
  const client = useQueryClient();
  // a request repeated after a lost response counts as one
  const [triggerId] = useState(newTriggerId);
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => disposeSavepoint(savepoint.location, triggerId),
    onSuccess: () => {
      onClose();
      void client.invalidateQueries({ queryKey: KEY });
    },
  });
  const dispose = useSingleFlight(mutate);
  return (
    <Modal
      opened
      onClose={onClose}
      title="Dispose of this savepoint?"
      centered
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Text size="sm" className="tm-break">
        The files of <span className="tm-mono">{savepoint.location}</span> are deleted. No job can be started from it
        any more.
      </Text>
      {error !== null && (
        <Text role="alert" size="sm" c="var(--tm-failed)" mt="sm" className="tm-break">
          {error.message}
        </Text>
      )}
      <Group justify="flex-end" mt="lg">
        <Button variant="default" onClick={onClose} data-autofocus>
          Keep
        </Button>
        <Button color="red.8" loading={isPending} onClick={() => dispose()}>
          Dispose
        </Button>
      </Group>
    </Modal>
  );
}
