/** Charts of metrics that the user picks among all of a vertex, users' own included: since anybody has picked them. */

import { CloseButton, Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { fetchHistory, fetchVertexMetrics } from '../../api/metrics';
import type { VertexMetrics } from '../../gen/contract';
import type { ChartChoice } from '../../store/chartChoices';
import { formatMetric, groupMetrics, summarise } from '../../model/metricTable';
import type { Mark } from '../../model/history';
import { pickedHistory, pickedSeries, recordPicked, withKept } from '../../store/pickedMetrics';
import { connection } from '../../store/socket';
import { t } from '../../texts/t';
import { TimeChart } from '../TimeChart/TimeChart';
import classes from './VertexDrawer.module.css';

/** The interval at which they are written. */
const READ_MS = 2_000;
/** What the page sees itself is newer. */
const KEPT_REFRESH_MS = 60_000;
const MAX_PICKED = 8;
/** More in a list at once make it slow; the rest is found by typing. */
const MAX_SHOWN = 100;

interface Props {
  readonly jobId: string;
  readonly vertexId: string;
  readonly windowMs: number;
  readonly marks: readonly Mark[];
  readonly choice: ChartChoice;
  readonly onChoose: (change: Partial<ChartChoice>) => void;
  /** Of the job, epoch ms; undefined while it goes on: then it reports more. */
  readonly end: number | undefined;
}

export function PickedCharts({ jobId, vertexId, windowMs, marks, choice, onChoose, end }: Props) {
  const hasEnded = end !== undefined;
  const picked = choice.metrics[vertexId] ?? [];
  const { data } = useQuery({
    queryKey: ['picked-metrics', jobId, vertexId, picked],
    queryFn: async () => {
      const metrics = await fetchVertexMetrics(jobId, vertexId);
      recordPicked(jobId, vertexId, picked, metrics, Date.now() + connection.clockOffset);
      return metrics;
    },
    refetchInterval: picked.length > 0 && !hasEnded ? READ_MS : false,
    placeholderData: (before) => before,
    staleTime: 0,
  });
  // asking for it has the server keep it
  const { data: kept } = useQuery({
    queryKey: ['picked-history', jobId, vertexId, picked, windowMs, end],
    queryFn: () =>
      fetchHistory(
        jobId,
        pickedSeries(vertexId, picked),
        Math.max(0, (end ?? Date.now() + connection.clockOffset) - windowMs),
        end,
      ),
    enabled: picked.length > 0,
    refetchInterval: hasEnded ? false : KEPT_REFRESH_MS,
    placeholderData: (before) => before,
  });
  const pick = (metrics: readonly string[]) =>
    onChoose({ metrics: { ...choice.metrics, [vertexId]: metrics.slice(-MAX_PICKED) } });
  return (
    <>
      <Select
        size="xs"
        searchable
        clearable
        aria-label={t('Add a chart of a metric')}
        placeholder={t('Add a chart of a metric')}
        limit={MAX_SHOWN}
        nothingFoundMessage={t('No metric that is a number has such a name')}
        data={optionsOf(data, picked)}
        value={null}
        onChange={(id) => id !== null && pick([...picked, id])}
      />
      {picked.map((id) => {
        const samples = withKept(kept, vertexId, id, pickedHistory(jobId, vertexId, id));
        return (
          <div key={id} className={classes.picked}>
            <CloseButton
              size="sm"
              aria-label={t('Remove the chart of {id}', { id })}
              onClick={() => pick(picked.filter((each) => each !== id))}
            />
            <TimeChart
              title={id}
              times={samples.map(({ time }) => time)}
              windowMs={windowMs}
              marks={marks}
              format={formatMetric}
              series={[
                { name: t('Greatest'), values: samples.map(({ greatest }) => greatest) },
                { name: t('Average'), values: samples.map(({ average }) => average) },
                { name: t('Least'), values: samples.map(({ least }) => least) },
              ]}
            />
          </div>
        );
      })}
    </>
  );
}

function optionsOf(metrics: VertexMetrics | undefined, picked: readonly string[]) {
  if (metrics === undefined) return [];
  const numbers = metrics.metrics.filter(({ id, values }) => !picked.includes(id) && summarise(values) !== null);
  return groupMetrics(numbers, metrics.operators, '').map(({ key, title, rows }) => ({
    // two operators may have the same name
    group: key === '' ? title : `${title} (${key.slice(0, 6)})`,
    items: rows.map(({ id, name }) => ({ value: id, label: name })),
  }));
}
