/** User accumulators: merged over all subtasks of the vertex, and per subtask. */

import { Skeleton } from '@mantine/core';
import { IconSum } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';

import { fetchSubtasksAccumulators, fetchVertexAccumulators } from '../../api/metrics';
import type { Accumulator } from '../../gen/contract';
import { NOTHING } from '../../model/format';
import type { Vertex } from '../../model/job';
import { t } from '../../texts/t';
import { EmptyState, FailureState } from '../EmptyState/EmptyState';
import classes from './VertexMetrics.module.css';

const READ_MS = 2_000;

interface Props {
  readonly jobId: string;
  readonly vertex: Vertex;
}

export function AccumulatorsTab({ jobId, vertex }: Props) {
  const { data, error, refetch } = useQuery({
    queryKey: ['accumulators', jobId, vertex.id],
    queryFn: () =>
      Promise.all([fetchVertexAccumulators(jobId, vertex.id), fetchSubtasksAccumulators(jobId, vertex.id)]),
    refetchInterval: vertex.end_time < 0 ? READ_MS : 5 * READ_MS,
    staleTime: 0,
  });
  if (data === undefined) {
    return error === null ? (
      <Skeleton height={160} radius={10} />
    ) : (
      <FailureState
        title={t('The accumulators cannot be shown')}
        message={error.message}
        onRetry={() => void refetch()}
      />
    );
  }
  const merged = data[0]['user-accumulators'];
  if (merged.length === 0) {
    return (
      <EmptyState compact icon={IconSum} title={t('No accumulators')}>
        {t('No function of this vertex registers an accumulator; see RuntimeContext.add_accumulator.')}
      </EmptyState>
    );
  }
  const subtasks = data[1].subtasks.filter((each) => each['user-accumulators'].length > 0);
  return (
    <div className={classes.tables}>
      <div className="tm-table-scroll" tabIndex={0}>
        <table className="tm-table">
          <caption className="tm-visually-hidden">{t('Accumulators')}</caption>
          <Head first={t('Accumulator')} />
          <tbody>
            {merged.map((each) => (
              <Row key={each.name} first={each.name} accumulator={each} />
            ))}
          </tbody>
        </table>
      </div>
      {merged.map(({ name }) => (
        <section key={name} aria-label={t('{name} of each subtask', { name })}>
          <h3 className={classes.title}>{t('{name} of each subtask', { name })}</h3>
          <div className="tm-table-scroll" tabIndex={0}>
            <table className="tm-table">
              <caption className="tm-visually-hidden">{t('{name} of each subtask', { name })}</caption>
              <Head first={t('Subtask')} />
              <tbody>
                {subtasks.flatMap(({ subtask, 'user-accumulators': own }) =>
                  own
                    .filter((each) => each.name === name)
                    .map((each) => <Row key={subtask} first={String(subtask)} accumulator={each} />),
                )}
              </tbody>
            </table>
          </div>
        </section>
      ))}
    </div>
  );
}

function Head({ first }: { readonly first: string }) {
  return (
    <thead>
      <tr>
        <th scope="col">{first}</th>
        <th scope="col">{t('Type')}</th>
        <th scope="col" className="tm-num">
          {t('Value')}
        </th>
      </tr>
    </thead>
  );
}

function Row({ first, accumulator }: { readonly first: string; readonly accumulator: Accumulator }) {
  return (
    <tr>
      <td>{first}</td>
      <td className="tm-dim">{accumulator.type}</td>
      <td className="tm-num">{accumulator.value === 'null' ? NOTHING : accumulator.value}</td>
    </tr>
  );
}
