/** All metrics of a vertex's subtasks, including user metrics, by operator; fetched only while shown. */

import { Select, Skeleton, TextInput } from '@mantine/core';
import { IconGauge, IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Fragment, useState } from 'react';

import { fetchVertexMetrics } from '../../api/metrics';
import { useQueryParam } from '../../hooks/useQueryParam';
import { NOTHING } from '../../model/format';
import type { Vertex } from '../../model/job';
import { type MetricRow, formatMetric, groupMetrics, summarise } from '../../model/metricTable';
import { t } from '../../texts/t';
import { EmptyState, FailureState } from '../EmptyState/EmptyState';
import classes from './VertexMetrics.module.css';

/** The interval at which they are written. */
const READ_MS = 2_000;
/** More subtasks do not fit side by side; then the user picks one. */
const MAX_COLUMNS = 8;

interface Props {
  readonly jobId: string;
  readonly vertex: Vertex;
}

export function MetricsTab({ jobId, vertex }: Props) {
  const [filterParam, setFilterParam] = useQueryParam('metric');
  const filter = filterParam ?? '';
  const setFilter = (value: string) => setFilterParam(value === '' ? null : value);
  const [picked, setPicked] = useState<string | null>('0');
  const { data, error, refetch } = useQuery({
    queryKey: ['vertex-metrics', jobId, vertex.id],
    queryFn: () => fetchVertexMetrics(jobId, vertex.id),
    refetchInterval: vertex.end_time < 0 ? READ_MS : 5 * READ_MS,
    staleTime: 0,
  });
  if (data === undefined) {
    return error === null ? (
      <Skeleton height={320} radius={10} />
    ) : (
      <FailureState title={t('The metrics cannot be shown')} message={error.message} onRetry={() => void refetch()} />
    );
  }
  if (data.metrics.length === 0) {
    return (
      <EmptyState compact icon={IconGauge} title={t('No metrics')}>
        {t('Subtasks report them while they run; they are kept for an hour after the job has ended.')}
      </EmptyState>
    );
  }
  const isWide = data.subtasks.length > MAX_COLUMNS;
  const subtasks = isWide ? data.subtasks.filter((index) => String(index) === picked) : data.subtasks;
  const groups = groupMetrics(data.metrics, data.operators, filter);
  return (
    <>
      <div className={classes.tools}>
        <TextInput
          size="xs"
          className={classes.filter ?? ''}
          placeholder={t('Filter metrics')}
          aria-label={t('Filter metrics')}
          leftSection={<IconSearch size={15} />}
          value={filter}
          onChange={(event) => setFilter(event.currentTarget.value)}
        />
        {isWide && (
          <Select
            size="xs"
            w={150}
            searchable
            allowDeselect={false}
            aria-label={t('Subtask')}
            value={picked}
            onChange={setPicked}
            data={data.subtasks.map((index) => ({ value: String(index), label: t('Subtask {index}', { index }) }))}
          />
        )}
      </div>
      {groups.length === 0 ? (
        <EmptyState compact icon={IconGauge} title={t('No metric matches the filter')} />
      ) : (
        <div className="tm-table-scroll" tabIndex={0}>
          <table className={`tm-table ${classes.table ?? ''}`}>
            <caption className="tm-visually-hidden">{t('Metrics')}</caption>
            <thead>
              <tr>
                <th scope="col">{t('Metric')}</th>
                {isWide && [t('Min'), t('Max'), t('Sum')].map((name) => <Heading key={name} text={name} />)}
                {subtasks.map((index) => (
                  <Heading key={index} text={t('Subtask {index}', { index })} />
                ))}
              </tr>
            </thead>
            <tbody>
              {groups.map(({ key, title, rows }) => (
                <Fragment key={key}>
                  <tr className={classes.group}>
                    <th scope="rowgroup" colSpan={1 + (isWide ? 3 : 0) + subtasks.length}>
                      {title}
                    </th>
                  </tr>
                  {rows.map((row) => (
                    <Row key={row.id} row={row} isWide={isWide} subtasks={subtasks} />
                  ))}
                </Fragment>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

function Heading({ text }: { readonly text: string }) {
  return (
    <th scope="col" className="tm-num">
      {text}
    </th>
  );
}

interface RowProps {
  readonly row: MetricRow;
  readonly isWide: boolean;
  readonly subtasks: readonly number[];
}

function Row({ row, isWide, subtasks }: RowProps) {
  const summary = isWide ? (summarise(row.values)?.map(formatMetric) ?? [NOTHING, NOTHING, NOTHING]) : [];
  const own = subtasks.map((index) => formatMetric(row.values[index]));
  return (
    <tr>
      <td className={`tm-mono ${classes.name ?? ''}`} title={row.id}>
        {row.name}
      </td>
      {[...summary, ...own].map((text, column) => (
        // columns have no identity other than their position
        <td key={column} className={`tm-num ${classes.value ?? ''}`} title={text}>
          {text}
        </td>
      ))}
    </tr>
  );
}
