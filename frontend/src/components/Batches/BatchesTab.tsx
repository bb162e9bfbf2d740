/** The last batches of a job in micro-batches: rows, positions, and the phases of each. */

import { Skeleton } from '@mantine/core';
import { IconChevronRight, IconStack2 } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Fragment } from 'react';
import { Link } from 'react-router';

import { fetchBatches } from '../../api/batches';
import type { Batch } from '../../gen/contract';
import { useJobId, useJobPart } from '../../hooks/useJob';
import { useOpenItems } from '../../hooks/useOpenItems';
import { useTimes } from '../../hooks/useTimes';
import {
  BATCH_PHASES,
  KIND_NAMES,
  PHASE_EXPLANATIONS,
  PHASE_NAMES,
  batchPhasesText,
  keyOf,
  readRate,
} from '../../model/batches';
import { formatCompact, formatCount, formatPhase, formatRate } from '../../model/format';
import { t } from '../../texts/t';
import { EmptyState, FailureState } from '../EmptyState/EmptyState';
import { Panel } from '../Panel/Panel';
import { ToneBadge } from '../StateBadge/StateBadge';
import classes from './Batches.module.css';

const COLUMNS = 8;

export function BatchesTab() {
  const jobId = useJobId();
  const completed = useJobPart(({ moving }) => moving.checkpoints?.counts.completed ?? 0);
  const { data, error, refetch } = useQuery({
    // each batch is a checkpoint
    queryKey: ['batches', jobId, completed],
    queryFn: () => fetchBatches(jobId),
    placeholderData: keepPreviousData,
    gcTime: 0,
  });
  if (data !== undefined) return <BatchTable batches={data.batches} />;
  return (
    <Panel title={t('Batches')}>
      {error === null ? (
        <Skeleton height={160} />
      ) : (
        <FailureState title={t('The batches cannot be shown')} message={error.message} onRetry={() => void refetch()} />
      )}
    </Panel>
  );
}

export function BatchTable({ batches }: { readonly batches: readonly Batch[] }) {
  const [open, toggle] = useOpenItems('batch');
  const times = useTimes();
  const scale = Math.max(1, ...batches.map(({ duration }) => duration));
  const hasRegions = new Set(batches.map(({ region }) => region)).size > 1;
  if (batches.length === 0) {
    return (
      <Panel title={t('Batches')}>
        <EmptyState compact icon={IconStack2} title={t('No batch yet')}>
          {t('A batch is shown once its sinks have committed.')}
        </EmptyState>
      </Panel>
    );
  }
  return (
    <Panel title={t('Batches')} flush>
      <ul className={classes.legend} aria-label={t('Phases of a batch')}>
        {BATCH_PHASES.map((phase) => (
          <li key={phase}>
            <span className={classes.swatch} data-batch-phase={phase} aria-hidden />
            {PHASE_NAMES[phase]} <span className="tm-dim">{PHASE_EXPLANATIONS[phase]}</span>
          </li>
        ))}
      </ul>
      <div className="tm-table-scroll" tabIndex={0}>
        <table className="tm-table">
          <caption className="tm-visually-hidden">{t('Last batches, newest first')}</caption>
          <thead>
            <tr>
              <th scope="col">{t('Batch')}</th>
              <th scope="col">{t('Kind')}</th>
              <th scope="col">{t('Time')}</th>
              <th scope="col" className="tm-num">
                {t('Records read')}
              </th>
              <th scope="col" className="tm-num">
                {t('Records written')}
              </th>
              <th scope="col" className="tm-num">
                {t('Read per second')}
              </th>
              <th scope="col" className={classes.phases}>
                {t('Phases')}
              </th>
              <th scope="col" className="tm-num">
                {t('Duration')}
              </th>
            </tr>
          </thead>
          <tbody>
            {batches.map((batch) => {
              const key = keyOf(batch);
              const isOpen = open.has(key);
              return (
                <Fragment key={key}>
                  <tr>
                    <td>
                      <button
                        type="button"
                        className={classes.toggle}
                        aria-expanded={isOpen}
                        aria-label={t('Batch of checkpoint {checkpoint}, details', { checkpoint: batch.checkpoint })}
                        onClick={() => toggle(key)}
                      >
                        <IconChevronRight size={15} aria-hidden /> {batch.number ?? '–'}
                      </button>
                    </td>
                    <td>
                      {KIND_NAMES[batch.kind]}
                      {hasRegions && <span className="tm-dim tm-break"> {batch.name}</span>}
                    </td>
                    <td>{times.time(batch.time)}</td>
                    <td className="tm-num">{formatCount(batch.read_records)}</td>
                    <td className="tm-num">{formatCount(batch.write_records)}</td>
                    <td className="tm-num">{batch.kind === 'data' ? formatRate(readRate(batch)) : '–'}</td>
                    <td className={classes.phases}>
                      <Bar batch={batch} scale={scale} />
                    </td>
                    <td className="tm-num">{formatPhase(batch.duration)}</td>
                  </tr>
                  {isOpen && (
                    <tr className={classes.detailsRow}>
                      <td colSpan={COLUMNS}>
                        <Details batch={batch} />
                      </td>
                    </tr>
                  )}
                </Fragment>
              );
            })}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Bar({ batch, scale }: { readonly batch: Batch; readonly scale: number }) {
  const text = batchPhasesText(batch);
  return (
    <span className={classes.bar} title={text}>
      <span className="tm-visually-hidden">{text}</span>
      {BATCH_PHASES.map((phase) => (
        <span
          key={phase}
          aria-hidden
          className={classes.segment}
          data-batch-phase={phase}
          style={{ width: `${(100 * batch.phases[phase]) / scale}%` }}
        />
      ))}
    </span>
  );
}

function Details({ batch }: { readonly batch: Batch }) {
  const spark = Object.entries(batch.spark_phases);
  return (
    <div className={classes.details}>
      <dl className={classes.facts}>
        <Fact name={t('Checkpoint')}>
          <Link className="tm-link" to={`?tab=checkpoints&phases=${batch.checkpoint}`}>
            {batch.checkpoint}
          </Link>
        </Fact>
        {BATCH_PHASES.map((phase) => (
          <Fact key={phase} name={PHASE_NAMES[phase]}>
            {formatPhase(batch.phases[phase])}
          </Fact>
        ))}
        <Fact name={t('Splits begun')}>{formatCompact(batch.splits)}</Fact>
        <Fact name={t('Input')}>
          <ToneBadge tone={batch.caught_up ? 'running' : 'waiting'} plain>
            {batch.caught_up ? t('Nothing left') : t('More to read')}
          </ToneBadge>
        </Fact>
      </dl>
      {spark.length > 0 && (
        <>
          <h3 className={classes.heading}>{t('Phases of Spark’s query')}</h3>
          <dl className={classes.facts}>
            {spark.map(([phase, duration]) => (
              <Fact key={phase} name={phase}>
                {formatPhase(duration)}
              </Fact>
            ))}
          </dl>
        </>
      )}
      {batch.positions.length > 0 && (
        <>
          <h3 className={classes.heading}>{t('Positions behind the batch')}</h3>
          <ul className={classes.positions} aria-label={t('Positions behind the batch')}>
            {batch.positions.map(({ vertex, name, index, split, position }) => (
              <li key={`${vertex} ${index} ${split}`}>
                <Link className="tm-link tm-break" to={`?vertex=${encodeURIComponent(vertex)}`}>
                  {name}
                </Link>{' '}
                <span className="tm-dim">{t('subtask {index}', { index })}</span> <code>{split}</code>{' '}
                <code className={classes.position}>{position}</code>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
