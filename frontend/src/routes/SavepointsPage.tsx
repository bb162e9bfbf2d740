/** All savepoints with job, time, size and actions. */

import { Button, Group, Pagination, Skeleton, Stack, Text, TextInput, Tooltip } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import {
  IconBookmark,
  IconChevronDown,
  IconChevronRight,
  IconDatabase,
  IconPlayerPlay,
  IconSearch,
  IconTrash,
} from '@tabler/icons-react';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { Link, useNavigate, useSearchParams } from 'react-router';

import { fetchRestorePoints, newTriggerId } from '../api/checkpoints';
import { disposeSavepoint, fetchSavepoints, PAGE_SIZE } from '../api/savepoints';
import { CopyText } from '../components/CopyText/CopyText';
import { Dialog } from '../components/Dialog/Dialog';
import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { Panel } from '../components/Panel/Panel';
import { SavepointContents } from '../components/StateBrowser/SavepointContents';
import type { Savepoint, Savepoints, SavepointUser } from '../gen/contract';
import { usePageTitle } from '../hooks/usePageTitle';
import { useQueryParam } from '../hooks/useQueryParam';
import { useRole } from '../hooks/useSession';
import { useSingleFlight } from '../hooks/useSingleFlight';
import { useTimes } from '../hooks/useTimes';
import { mayOperate, maySubmit } from '../model/access';
import { formatBytes } from '../model/format';
import { rich } from '../texts/rich';
import { plural, t } from '../texts/t';
import classes from './pages.module.css';
import own from './SavepointsPage.module.css';

const KEY = ['savepoints'];
const READ_MS = 10_000;
const COLUMNS = 7;
/** The server counts no further. */
const MAX_PAGE = 1_000_000 / PAGE_SIZE;

export function SavepointsPage() {
  usePageTitle(t('Savepoints'));
  const [params, setParams] = useSearchParams();
  const search = params.get('search');
  const [pageParam, setPage] = useQueryParam('page', 'push');
  const [wanted] = useDebouncedValue(search ?? '', 300);
  const page = Math.min(Math.max(1, Math.trunc(Number(pageParam)) || 1), MAX_PAGE);
  const { data, error, refetch } = useQuery({
    queryKey: [...KEY, wanted, page],
    queryFn: async () => ({ ...(await fetchSavepoints(wanted, page)), page }),
    refetchInterval: READ_MS,
    placeholderData: keepPreviousData,
  });
  const find = (text: string) =>
    // both at once: a second change would not see the first
    setParams(text === '' ? {} : { search: text }, { replace: true });
  const numPages = Math.ceil((data?.total ?? 0) / PAGE_SIZE);
  return (
    <>
      <h1 className={classes.pageTitle}>{t('Savepoints')}</h1>
      {data === undefined && error === null && <Skeleton height={200} radius={10} />}
      {data === undefined && error !== null && (
        <FailureState
          title={t('The savepoints cannot be listed')}
          message={error.message}
          onRetry={() => void refetch()}
        />
      )}
      {data !== undefined && (
        <Panel
          flush
          title={shownText(data)}
          actions={
            <TextInput
              size="xs"
              className={own.search ?? ''}
              placeholder={t('Search by path, job or user')}
              aria-label={t('Search savepoints')}
              leftSection={<IconSearch size={15} />}
              value={search ?? ''}
              onChange={(event) => find(event.currentTarget.value)}
            />
          }
        >
          {data.savepoints.length === 0 ? (
            <Nothing isSearch={wanted !== ''} isBeyond={data.total > 0} onFirst={() => setPage(null)} />
          ) : (
            <Rows savepoints={data.savepoints} />
          )}
          {numPages > 1 && (
            <nav aria-label={t('Pages')} className={own.pages}>
              <Pagination
                size="sm"
                total={numPages}
                value={page}
                onChange={(number) => setPage(number === 1 ? null : String(number))}
                getControlProps={(control) => ({ 'aria-label': CONTROLS[control] })}
                getItemProps={(number) => ({ 'aria-label': t('Page {number}', { number }) })}
              />
            </nav>
          )}
        </Panel>
      )}
    </>
  );
}

const CONTROLS = { first: t('First page'), previous: t('Previous page'), next: t('Next page'), last: t('Last page') };

/** Of the page that is shown, which is the one before until the next has come. */
function shownText({ savepoints, total, page }: Savepoints & { readonly page: number }): string {
  if (savepoints.length === total) return plural(total, '1 savepoint', '{count} savepoints');
  const first = (page - 1) * PAGE_SIZE + 1;
  return t('{first} to {last} of {total} savepoints', { first, last: first + savepoints.length - 1, total });
}

interface NothingProps {
  readonly isSearch: boolean;
  /** There are some, on pages before. */
  readonly isBeyond: boolean;
  readonly onFirst: () => void;
}

function Nothing({ isSearch, isBeyond, onFirst }: NothingProps) {
  if (isBeyond) {
    return (
      <EmptyState icon={IconBookmark} title={t('This page has no savepoint')}>
        <Button variant="default" size="compact-sm" onClick={onFirst}>
          {t('First page')}
        </Button>
      </EmptyState>
    );
  }
  if (isSearch) return <EmptyState icon={IconBookmark} title={t('No savepoint is found')} />;
  return (
    <EmptyState icon={IconBookmark} title={t('No savepoint yet')}>
      {t('Take one from the Actions of a running job, or stop a job with one.')}
    </EmptyState>
  );
}

function Rows({ savepoints }: { readonly savepoints: readonly Savepoint[] }) {
  const [doomed, setDoomed] = useState<Savepoint | null>(null);
  const [open, setOpen] = useState<string | null>(null);
  return (
    <div className="tm-table-scroll">
      <table className="tm-table">
        <caption className="tm-visually-hidden">{t('Savepoints')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('Savepoint')}</th>
            <th scope="col">{t('Job')}</th>
            <th scope="col">{t('Kind')}</th>
            <th scope="col">{t('Taken')}</th>
            <th scope="col" className="tm-num">
              {t('Size')}
            </th>
            <th scope="col">{t('Needed by')}</th>
            <th scope="col">
              <span className="tm-visually-hidden">{t('Actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {savepoints.map((savepoint) => (
            <Row
              key={savepoint.location}
              savepoint={savepoint}
              isOpen={open === savepoint.location}
              onToggle={() => setOpen((old) => (old === savepoint.location ? null : savepoint.location))}
              onDispose={() => setDoomed(savepoint)}
            />
          ))}
        </tbody>
      </table>
      {doomed !== null && <DisposeModal savepoint={doomed} onClose={() => setDoomed(null)} />}
    </div>
  );
}

interface RowProps {
  readonly savepoint: Savepoint;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
  readonly onDispose: () => void;
}

function Row({ savepoint, isOpen, onToggle, onDispose }: RowProps) {
  const times = useTimes();
  const id = useId();
  return (
    <>
      <tr>
        <td className={own.location}>
          <CopyText text={savepoint.location} label={t('path')} />
          {savepoint.exists === false ? (
            <div className="tm-dim">{t('Files are missing')}</div>
          ) : (
            <Button
              size="compact-xs"
              variant="subtle"
              aria-expanded={isOpen}
              aria-controls={id}
              leftSection={isOpen ? <IconChevronDown size={13} /> : <IconChevronRight size={13} />}
              onClick={onToggle}
            >
              {t('Contents')}
            </Button>
          )}
        </td>
        <td className={own.job}>
          <Link to={`/jobs/${savepoint.job_id}`} title={savepoint.job_name}>
            {savepoint.job_name}
          </Link>
        </td>
        <td>
          {savepoint.kind === 'stop' ? t('Stop with savepoint') : t('Savepoint')}
          <div className="tm-dim">{savepoint.format.toLowerCase()}</div>
        </td>
        <td>
          {times.dateTime(savepoint.created_at)}
          {savepoint.requested_by !== null && (
            <div className="tm-dim">{t('by {requestedBy}', { requestedBy: savepoint.requested_by })}</div>
          )}
        </td>
        <td className="tm-num">{formatBytes(savepoint.size)}</td>
        <td className={own.needed}>
          <Users savepoint={savepoint} />
        </td>
        <td>
          <Actions savepoint={savepoint} onDispose={onDispose} />
        </td>
      </tr>
      {isOpen && (
        <tr id={id}>
          <td colSpan={COLUMNS} className={own.contents}>
            <SavepointContents savepoint={savepoint} />
          </td>
        </tr>
      )}
    </>
  );
}

/** Who may have to restore from a savepoint, and the jobs that were started from it. */
function Users({ savepoint }: { readonly savepoint: Savepoint }) {
  const { needed_by: needed, needed_for: who, used_by: users } = savepoint;
  const others = users.filter(({ job_id }) => job_id !== needed);
  const starter = users.find(({ job_id }) => job_id === needed);
  if (needed === null && others.length === 0) return <span className="tm-dim">{t('Nobody')}</span>;
  return (
    <>
      {needed !== null && (
        <div>
          <Link to={`/jobs/${needed}`}>
            {starter?.job_name ?? capitalized(who ?? '').replace(needed, needed.slice(0, 8))}
          </Link>
          {starter !== undefined && <span className="tm-dim"> {startText(starter)}</span>}
        </div>
      )}
      {others.map((user) => (
        <div key={user.job_id} className="tm-dim">
          {rich('{link} {user}, does not need it', {
            link: <Link to={`/jobs/${user.job_id}`}>{user.job_name}</Link>,
            user: startText(user),
          })}
        </div>
      ))}
    </>
  );
}

function startText({ claim_mode: mode, job_state: state }: SavepointUser): string {
  return mode === 'CLAIM'
    ? t('started from it (claimed, {state})', { state: state.toLowerCase() })
    : t('started from it ({state})', { state: state.toLowerCase() });
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
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
    savepoint.needed_by !== null
      ? t('{neededFor} may have to restore from it', { neededFor: capitalized(savepoint.needed_for ?? '') })
      : null;
  const whyNot = mayOperate(role) ? whyKept : t('Requires the role operator');
  return (
    <Stack gap={6}>
      <Tooltip label={t('Requires the role developer')} disabled={maySubmit(role)}>
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconPlayerPlay size={14} />}
          loading={isPending}
          disabled={!maySubmit(role) || !isThere}
          onClick={() => restore()}
        >
          {t('Restore')}
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
          {t('State')}
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
          {t('Dispose')}
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
    <Dialog onClose={onClose} title={t('Dispose of this savepoint?')} centered>
      <Text size="sm" className="tm-break">
        {rich('The files of {path} are deleted. No job can be started from it any more.', {
          path: <span className="tm-mono">{savepoint.location}</span>,
        })}
      </Text>
      {error !== null && (
        <Text role="alert" size="sm" c="var(--tm-failed)" mt="sm" className="tm-break">
          {error.message}
        </Text>
      )}
      <Group justify="flex-end" mt="lg">
        <Button variant="default" onClick={onClose} data-autofocus>
          {t('Keep')}
        </Button>
        <Button color="red.8" loading={isPending} onClick={() => dispose()}>
          {t('Dispose')}
        </Button>
      </Group>
    </Dialog>
  );
}
