/** Connections: systems outside by the name that nodes use. Their secrets are the jobmanager's. */

import { ActionIcon, Button, Group, Menu, Skeleton, Text } from '@mantine/core';
import { IconChevronRight, IconDots, IconPlug, IconPlus } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';

import {
  CONNECTIONS_KEY,
  type Connection,
  deleteConnection,
  fetchConnections,
  testConnection,
} from '../api/connections';
import own from '../components/Connections/Connections.module.css';
import { ConnectionDialog } from '../components/Connections/ConnectionDialog';
import { DescribeDialog } from '../components/Connections/DescribeDialog';
import { TestResult } from '../components/Connections/TestResult';
import { CopyText } from '../components/CopyText/CopyText';
import { Dialog } from '../components/Dialog/Dialog';
import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { Panel } from '../components/Panel/Panel';
import { usePageTitle } from '../hooks/usePageTitle';
import { useRole } from '../hooks/useSession';
import { useSingleFlight } from '../hooks/useSingleFlight';
import { mayAdminister, maySubmit } from '../model/access';
import { t } from '../texts/t';
import classes from './pages.module.css';

const READ_MS = 15_000;

export function ConnectionsPage() {
  usePageTitle(t('Connections'));
  const mayChange = mayAdminister(useRole());
  const [editing, setEditing] = useState<Connection | 'new' | null>(null);
  const { data, error, refetch } = useQuery({
    queryKey: CONNECTIONS_KEY,
    queryFn: fetchConnections,
    refetchInterval: READ_MS,
  });
  return (
    <>
      <nav className={classes.crumbs} aria-label={t('Breadcrumb')}>
        <Link to="/pipelines">{t('Pipelines')}</Link>
        <IconChevronRight size={14} aria-hidden />
        {t('Connections')}
      </nav>
      <div className={classes.titleRow}>
        <h1 className={classes.pageTitle}>{t('Connections')}</h1>
        {mayChange && (
          <Button leftSection={<IconPlus size={16} aria-hidden />} onClick={() => setEditing('new')}>
            {t('New connection')}
          </Button>
        )}
      </div>
      {data === undefined && error === null && <Skeleton height={200} radius={10} />}
      {data === undefined && error !== null && (
        <FailureState
          title={t('The connections cannot be listed')}
          message={error.message}
          onRetry={() => void refetch()}
        />
      )}
      {data !== undefined && (
        <Panel flush label={t('Connections')}>
          {data.length === 0 ? (
            <EmptyState icon={IconPlug} title={t('No connection yet')}>
              {t(
                'A connection names a database, a Redis server or a Kafka cluster, so that nodes can read it, write it and look rows up in it. Its URL is a secret of the JobManager.',
              )}
            </EmptyState>
          ) : (
            <Rows connections={data} onEdit={setEditing} />
          )}
        </Panel>
      )}
      {editing !== null && (
        <ConnectionDialog
          connection={editing === 'new' ? null : editing}
          taken={(data ?? []).map(({ name }) => name)}
          onClose={() => setEditing(null)}
        />
      )}
    </>
  );
}

const KIND_NAMES: Readonly<Record<Connection['kind'], string>> = {
  postgres: t('PostgreSQL'),
  redis: t('Redis'),
  kafka: t('Kafka'),
};

interface RowsProps {
  readonly connections: readonly Connection[];
  readonly onEdit: (connection: Connection) => void;
}

function Rows({ connections, onEdit }: RowsProps) {
  const [described, setDescribed] = useState<Connection | null>(null);
  const [doomed, setDoomed] = useState<Connection | null>(null);
  return (
    <div className="tm-table-scroll">
      <table className="tm-table">
        <caption className="tm-visually-hidden">{t('Connections')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('Name')}</th>
            <th scope="col">{t('Kind')}</th>
            <th scope="col">{t('Owner')}</th>
            <th scope="col">{t('Secret')}</th>
            <th scope="col">{t('Last test')}</th>
            <th scope="col">
              <span className="tm-visually-hidden">{t('Actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {connections.map((connection) => (
            <Row
              key={connection.name}
              connection={connection}
              onDescribe={() => setDescribed(connection)}
              onEdit={() => onEdit(connection)}
              onDelete={() => setDoomed(connection)}
            />
          ))}
        </tbody>
      </table>
      {described !== null && <DescribeDialog connection={described} onClose={() => setDescribed(null)} />}
      {doomed !== null && <DeleteModal connection={doomed} onClose={() => setDoomed(null)} />}
    </div>
  );
}

interface RowProps {
  readonly connection: Connection;
  readonly onDescribe: () => void;
  readonly onEdit: () => void;
  readonly onDelete: () => void;
}

function Row({ connection, onDescribe, onEdit, onDelete }: RowProps) {
  const { name, kind, secrets } = connection;
  const client = useQueryClient();
  const role = useRole();
  const { mutate, isPending, error } = useMutation({
    mutationFn: testConnection,
    onSettled: () => void client.invalidateQueries({ queryKey: CONNECTIONS_KEY }),
  });
  const test = useSingleFlight(mutate);
  return (
    <tr>
      <td>{name}</td>
      <td>{KIND_NAMES[kind]}</td>
      <td>{connection.owner ?? '–'}</td>
      <td>
        {secrets.map(({ key, variable, is_known }) => (
          <div key={key} className={own.secret}>
            <CopyText text={variable} label={t('name of the variable')} />
            <span className="tm-dim">{is_known ? t('is set') : t('is not known to this web process')}</span>
          </div>
        ))}
      </td>
      <td className="tm-grow">
        {error === null ? <TestResult connection={connection} /> : <span className={own.problem}>{error.message}</span>}
      </td>
      <td>
        <div className={own.buttons}>
          <Button
            size="compact-sm"
            variant="default"
            loading={isPending}
            disabled={!mayAdminister(role)}
            aria-label={t('Test {name}', { name })}
            onClick={() => test(name)}
          >
            {t('Test')}
          </Button>
          <Button
            size="compact-sm"
            variant="default"
            disabled={!maySubmit(role)}
            aria-label={t('Describe {name}', { name })}
            onClick={onDescribe}
          >
            {t('Describe')}
          </Button>
          {mayAdminister(role) && (
            <Menu position="bottom-end" width={160}>
              <Menu.Target>
                <ActionIcon variant="subtle" color="gray" aria-label={t('Actions of {name}', { name })}>
                  <IconDots size={17} aria-hidden />
                </ActionIcon>
              </Menu.Target>
              <Menu.Dropdown>
                <Menu.Item onClick={onEdit}>{t('Edit')}</Menu.Item>
                <Menu.Item onClick={onDelete}>{t('Delete')}</Menu.Item>
              </Menu.Dropdown>
            </Menu>
          )}
        </div>
      </td>
    </tr>
  );
}

function DeleteModal({ connection, onClose }: { readonly connection: Connection; readonly onClose: () => void }) {
  const client = useQueryClient();
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => deleteConnection(connection.name),
    onSuccess: () => {
      onClose();
      void client.invalidateQueries({ queryKey: CONNECTIONS_KEY });
    },
  });
  const remove = useSingleFlight(mutate);
  return (
    <Dialog onClose={onClose} title={t('Delete this connection?')} centered>
      <Text size="sm" className="tm-break">
        {t('{name} is removed from this list. Its secret stays where it is, and jobs that use it keep running.', {
          name: connection.name,
        })}
      </Text>
      {error !== null && (
        <Text role="alert" size="sm" c="var(--tm-failed)" mt="sm">
          {error.message}
        </Text>
      )}
      <Group justify="flex-end" mt="lg">
        <Button variant="default" onClick={onClose} data-autofocus>
          {t('Keep')}
        </Button>
        <Button color="red" loading={isPending} onClick={() => remove(undefined)}>
          {t('Delete')}
        </Button>
      </Group>
    </Dialog>
  );
}
