/** The audit trail, newest first: who did what, from where, and how it ended. Administrators only. */

import { Button, Group, Skeleton, TextInput } from '@mantine/core';
import { IconHistory, IconSearch } from '@tabler/icons-react';
import { useInfiniteQuery } from '@tanstack/react-query';

import { fetchAudit } from '../api/access';
import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { Panel } from '../components/Panel/Panel';
import { StateBadge } from '../components/StateBadge/StateBadge';
import type { AuditEntry } from '../gen/contract';
import { usePageTitle } from '../hooks/usePageTitle';
import { useQueryParam } from '../hooks/useQueryParam';
import { useTimes } from '../hooks/useTimes';
import { t } from '../texts/t';
import classes from './pages.module.css';

const LOOKS = { done: 'FINISHED', denied: 'FAILED', failed: 'CANCELED' } as const;

export function AuditPage() {
  usePageTitle(t('Audit Trail'));
  const { data, error, refetch, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ['audit'],
    queryFn: ({ pageParam }) => fetchAudit(pageParam),
    initialPageParam: null as number | null,
    getNextPageParam: (last) => last.next,
  });
  const events = data?.pages.flatMap((page) => page.events) ?? [];
  const [filter, setFilter] = useQueryParam('filter');
  const words = (filter ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  const shown = events.filter((event) => words.every((word) => textOf(event).includes(word)));
  return (
    <>
      <h1 className={classes.pageTitle}>{t('Audit Trail')}</h1>
      {data === undefined && error === null && <Skeleton height={200} radius={10} />}
      {data === undefined && error !== null && (
        <FailureState
          title={t('The audit trail cannot be read')}
          message={error.message}
          onRetry={() => void refetch()}
        />
      )}
      {data !== undefined && (
        <Panel
          flush
          title={t('Events')}
          actions={
            <TextInput
              size="xs"
              w={240}
              placeholder={t('Filter the events shown')}
              aria-label={t('Filter events')}
              leftSection={<IconSearch size={15} />}
              value={filter ?? ''}
              onChange={(event) => setFilter(event.currentTarget.value === '' ? null : event.currentTarget.value)}
            />
          }
        >
          {events.length > 0 && shown.length === 0 ? (
            <EmptyState compact icon={IconSearch} title={t('None of the events shown matches the filter')} />
          ) : events.length === 0 ? (
            <EmptyState icon={IconHistory} title={t('No events yet')}>
              {t('Every change, and every one that was refused, is recorded here for good.')}
            </EmptyState>
          ) : (
            <Rows events={shown} />
          )}
          {hasNextPage && (
            <Group justify="center" p="md">
              <Button variant="default" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
                {t('Show earlier events')}
              </Button>
            </Group>
          )}
        </Panel>
      )}
    </>
  );
}

function Rows({ events }: { readonly events: readonly AuditEntry[] }) {
  const times = useTimes();
  return (
    <div className="tm-table-scroll" tabIndex={0}>
      <table className="tm-table">
        <caption className="tm-visually-hidden">{t('Audit Trail')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('Time')}</th>
            <th scope="col">{t('User')}</th>
            <th scope="col">{t('Action')}</th>
            <th scope="col">{t('Result')}</th>
          </tr>
        </thead>
        <tbody>
          {events.map((event) => (
            <tr key={event.id}>
              <td>{times.dateTime(event.at)}</td>
              <td>
                {event.user || (event.address === '' ? t('the cluster') : t('nobody'))}
                <div className="tm-dim">{from(event)}</div>
              </td>
              <td className="tm-grow tm-break">
                <span className="tm-mono">{event.action}</span>
                <div className="tm-dim tm-break">{about(event)}</div>
              </td>
              <td>
                <StateBadge state={LOOKS[event.result]} text={event.result.toUpperCase()} />
                {event.status !== null && <div className="tm-dim">{event.status}</div>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function textOf(event: AuditEntry): string {
  return [event.user, event.action, event.result, from(event), about(event)].join(' ').toLowerCase();
}

function from({ address, token }: AuditEntry): string {
  return [address, token === '' ? '' : t('token {token}', { token })].filter(Boolean).join(', ');
}

function about({ object, detail }: AuditEntry): string {
  const told = Object.entries(detail).map(([name, value]) => `${name}: ${text(value)}`);
  return [object, ...told].filter(Boolean).join(' · ');
}

/** A change is the value before and the one after. */
function text(value: unknown): string {
  if (Array.isArray(value) && value.length === 2) return `${String(value[0])} → ${String(value[1])}`;
  return typeof value === 'string' ? value : JSON.stringify(value);
}
