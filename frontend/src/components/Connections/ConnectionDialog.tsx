/** Creates a connection: a name and a kind. Its secrets are given to the jobmanager, never to the page. */

import { Button, Group, Select, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type SyntheticEvent, useState } from 'react';

import { CONNECTIONS_KEY, type Connection, type ConnectionKind, putConnection } from '../../api/connections';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { t } from '../../texts/t';
import { Dialog } from '../Dialog/Dialog';
import classes from './Connections.module.css';

const KINDS: readonly { readonly value: ConnectionKind; readonly label: string }[] = [
  { value: 'postgres', label: t('PostgreSQL') },
  { value: 'redis', label: t('Redis') },
  { value: 'kafka', label: t('Kafka') },
];

/** What the URL of each kind looks like. */
const URLS: Readonly<Record<ConnectionKind, string>> = {
  postgres: 'postgresql://user:password@host:5432/database',
  redis: 'redis://:password@host:6379/0',
  kafka: 'kafka://user:password@host:9092,host:9092?security.protocol=SASL_SSL&sasl.mechanism=PLAIN',
};

interface Props {
  /** Null: a new one. */
  readonly connection: Connection | null;
  readonly taken: readonly string[];
  readonly onClose: () => void;
}

export function ConnectionDialog({ connection, taken, onClose }: Props) {
  const client = useQueryClient();
  const [name, setName] = useState(connection?.name ?? '');
  const [kind, setKind] = useState<ConnectionKind>(connection?.kind ?? 'postgres');
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => putConnection(name.trim(), { kind, options: connection?.options ?? {} }),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: CONNECTIONS_KEY });
      onClose();
    },
  });
  const put = useSingleFlight(mutate);
  const isTaken = connection === null && taken.includes(name.trim());
  return (
    <Dialog
      onClose={onClose}
      title={connection === null ? t('New connection') : t('Edit {name}', { name: connection.name })}
      centered
    >
      <form
        className={classes.form}
        onSubmit={(event: SyntheticEvent) => {
          event.preventDefault();
          put(undefined);
        }}
      >
        <TextInput
          data-autofocus
          label={t('Name')}
          description={t('Nodes refer to it by this name: letters, digits and _ . -')}
          value={name}
          disabled={connection !== null}
          error={isTaken ? t('A connection with this name already exists.') : null}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <Select
          label={t('Kind')}
          data={[...KINDS]}
          value={kind}
          allowDeselect={false}
          onChange={(chosen) => setKind(chosen ?? 'postgres')}
        />
        <p className={classes.note}>
          {t(
            'Its URL, with user and password, is a secret: it is given to the JobManager as a variable or in the file of secrets, and never goes through this page.',
          )}
        </p>
        <p className={classes.note}>
          {t('It looks like this:')} <code>{URLS[kind]}</code>
        </p>
        {error !== null && (
          <p role="alert" className={classes.problem}>
            {error.message}
          </p>
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {t('Close')}
          </Button>
          <Button type="submit" loading={isPending} disabled={name.trim() === '' || isTaken}>
            {connection === null ? t('Create') : t('Save')}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
