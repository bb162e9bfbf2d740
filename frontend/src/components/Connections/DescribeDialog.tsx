/** What is behind a connection: its tables, streams or topics, and the columns of a table. */

import { Loader, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { type Connection, describeConnection } from '../../api/connections';
import { t } from '../../texts/t';
import { CopyText } from '../CopyText/CopyText';
import { Dialog } from '../Dialog/Dialog';
import classes from './Connections.module.css';

const WHAT: Readonly<Record<Connection['kind'], string>> = { postgres: 'tables', redis: 'streams', kafka: 'topics' };

interface Props {
  readonly connection: Connection;
  readonly onClose: () => void;
}

export function DescribeDialog({ connection, onClose }: Props) {
  const { name, kind } = connection;
  const [table, setTable] = useState<string | null>(null);
  const [text, setText] = useState('');
  const { data, error } = useQuery({
    queryKey: ['connection-names', name],
    queryFn: () => describeConnection(name),
    gcTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
  });
  const names = (data?.names ?? []).filter((each) => each.toLowerCase().includes(text.toLowerCase()));
  const what = WHAT[kind];
  return (
    <Dialog onClose={onClose} size="lg" title={t('Behind {name}', { name })}>
      {error !== null && (
        <p role="alert" className={classes.problem}>
          {error.message}
        </p>
      )}
      {data === undefined && error === null && <Loader role="status" aria-label={t('Asking {name}', { name })} />}
      {data !== undefined && (
        <div className={classes.behind}>
          <div>
            <TextInput
              size="sm"
              data-autofocus
              aria-label={t('Search {what}', { what })}
              placeholder={t('Search {count} {what}', { count: data.names.length, what })}
              value={text}
              onChange={(event) => setText(event.currentTarget.value)}
            />
            <ul className={classes.names} aria-label={what}>
              {names.map((each) => (
                <li key={each}>
                  {kind !== 'postgres' ? (
                    <CopyText text={each} label={t('name')} />
                  ) : (
                    <button
                      type="button"
                      className={classes.table}
                      aria-pressed={table === each}
                      onClick={() => setTable(each)}
                    >
                      {each}
                    </button>
                  )}
                </li>
              ))}
            </ul>
            {names.length === 0 && <p className="tm-dim">{t('None.')}</p>}
            {!data.is_all && (
              <p className="tm-dim">{t('There may be more {what}: not all were looked at.', { what })}</p>
            )}
          </div>
          {table !== null && <Columns key={table} connection={name} table={table} />}
        </div>
      )}
    </Dialog>
  );
}

function Columns({ connection, table }: { readonly connection: string; readonly table: string }) {
  const { data, error } = useQuery({
    queryKey: ['connection-columns', connection, table],
    queryFn: () => describeConnection(connection, table),
    gcTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
  });
  if (error !== null) {
    return (
      <p role="alert" className={classes.problem}>
        {error.message}
      </p>
    );
  }
  if (data === undefined) return <Loader role="status" aria-label={t('Reading {table}', { table })} />;
  return (
    <table className="tm-table">
      <caption className="tm-visually-hidden">{t('Columns of {table}', { table })}</caption>
      <thead>
        <tr>
          <th scope="col">{t('Column')}</th>
          <th scope="col">{t('Type')}</th>
        </tr>
      </thead>
      <tbody>
        {data.columns.map(([name = '', type = '']) => (
          <tr key={name}>
            <td>{name}</td>
            <td>{type}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
