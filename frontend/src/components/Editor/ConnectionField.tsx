/** The name of a connection in a node's form: those that there are, with Test. */

import { Autocomplete, Button } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { ComponentProps } from 'react';
import { Link } from 'react-router';

import { CONNECTIONS_KEY, fetchConnections, testConnection } from '../../api/connections';
import { useRole } from '../../hooks/useSession';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { mayAdminister } from '../../model/access';
import { t } from '../../texts/t';
import classes from '../Connections/Connections.module.css';
import { TestResult } from '../Connections/TestResult';

interface Props {
  /** Label, description, error and the like. */
  readonly common: Omit<ComponentProps<typeof Autocomplete>, 'data' | 'value' | 'onChange'>;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

export function ConnectionField({ common, value, onChange }: Props) {
  const client = useQueryClient();
  const mayTest = mayAdminister(useRole());
  const { data = [] } = useQuery({ queryKey: CONNECTIONS_KEY, queryFn: fetchConnections, staleTime: 10_000 });
  const found = data.find(({ name }) => name === value);
  const { mutate, isPending, error } = useMutation({
    mutationFn: testConnection,
    onSettled: () => void client.invalidateQueries({ queryKey: CONNECTIONS_KEY }),
  });
  const test = useSingleFlight(mutate);
  return (
    <div className={classes.field}>
      <Autocomplete {...common} data={data.map(({ name }) => name)} value={value} onChange={onChange} />
      <div className={classes.under}>
        {found === undefined ? (
          <span className="tm-dim">
            {value === '' ? t('The name of a connection.') : t('There is no connection with this name yet.')}{' '}
            <Link className="tm-link" to="/connections">
              {t('Connections')}
            </Link>
          </span>
        ) : (
          <>
            <Button
              size="compact-xs"
              variant="default"
              loading={isPending}
              disabled={!mayTest}
              onClick={() => test(value)}
            >
              {t('Test')}
            </Button>
            {error === null ? (
              <TestResult connection={found} />
            ) : (
              <span className={classes.problem}>{error.message}</span>
            )}
          </>
        )}
      </div>
    </div>
  );
}
