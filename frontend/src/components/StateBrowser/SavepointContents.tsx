/** The contents of a savepoint: operators with keyed state, the states' names and types, sizes. */

import { Skeleton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { fetchState } from '../../api/state';
import type { KeyedState, Savepoint, StateOperator } from '../../gen/contract';
import { formatBytes } from '../../model/format';
import { t } from '../../texts/t';
import classes from './StateBrowser.module.css';

interface Props {
  readonly savepoint: Pick<Savepoint, 'job_id' | 'location'>;
}

export function SavepointContents({ savepoint }: Props) {
  const { job_id: jobId, location } = savepoint;
  const { data, error } = useQuery({
    queryKey: ['savepoint-contents', location],
    queryFn: () => fetchState(jobId, location),
    staleTime: Infinity,
  });
  if (error !== null) {
    return (
      <p role="alert" className={classes.problem}>
        {error.message}
      </p>
    );
  }
  if (data === undefined) return <Skeleton height={60} />;
  if (data.operators.length === 0) {
    return (
      <p className="tm-dim">
        {t('No keyed state: it has at most the positions of sources and what sinks have prepared.')}
      </p>
    );
  }
  return (
    <table className="tm-table">
      <caption className="tm-visually-hidden">{t('Contents of {location}', { location })}</caption>
      <thead>
        <tr>
          <th scope="col">{t('Operator')}</th>
          <th scope="col">{t('Keyed state')}</th>
          <th scope="col" className="tm-num">
            {t('Parallelism')}
          </th>
          <th scope="col" className="tm-num">
            {t('Size')}
          </th>
        </tr>
      </thead>
      <tbody>
        {data.operators.map((operator) => (
          <tr key={operator.id}>
            <td className={classes.operator}>
              <Link to={`/jobs/${jobId}?${addressOf(location, operator)}`}>{operator.name}</Link>
              {operator.key_type !== '' && (
                <div className="tm-dim">{t('by {keyType}', { keyType: operator.key_type })}</div>
              )}
            </td>
            <td className={classes.states}>
              <States operator={operator} />
            </td>
            <td className="tm-num">{operator.parallelism}</td>
            <td className="tm-num">{formatBytes(operator.size)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function States({ operator }: { readonly operator: StateOperator }) {
  if (operator.states === null) return <span className="tm-dim">{t('not recorded by the version that took it')}</span>;
  return (
    <ul className={classes.list}>
      {operator.states.map((state) => (
        <li key={state.name}>
          <span className="tm-mono">{state.name}</span> <span className="tm-dim">{kindText(state)}</span>
        </li>
      ))}
      {operator.has_timers && <li className="tm-dim">{t('timers')}</li>}
    </ul>
  );
}

function kindText({ kind, type, is_namespaced: isNamespaced }: KeyedState): string {
  return `${kind}, ${type}${isNamespaced ? t(', for each window') : ''}`;
}

function addressOf(location: string, { id }: StateOperator): string {
  return new URLSearchParams({ tab: 'state', snapshot: location, state: `${id}/` }).toString();
}
