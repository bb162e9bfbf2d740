/** Details of a checkpoint: its location and its vertices; a vertex expands to its subtasks. */

import { Skeleton } from '@mantine/core';
import { IconChevronRight } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Fragment, type ReactNode, useState } from 'react';

import { fetchCheckpoint, fetchCheckpointSubtasks } from '../../api/checkpoints';
import type { CheckpointEntry, CheckpointSubtask } from '../../gen/contract';
import { useJobId, useVertices } from '../../hooks/useJob';
import { useTimes } from '../../hooks/useTimes';
import { acknowledged, typeOf } from '../../model/checkpoints';
import { formatBytes, formatDuration } from '../../model/format';
import { t } from '../../texts/t';
import { CopyText } from '../CopyText/CopyText';
import { FailureState } from '../EmptyState/EmptyState';
import classes from './Checkpoints.module.css';

interface Props {
  readonly entry: CheckpointEntry;
}

/** Changes as the checkpoint proceeds: details read under another mark are out of date. */
const markOf = ({ id, status, num_acknowledged_subtasks: acks }: CheckpointEntry) => [id, status, acks] as const;

export function CheckpointDetails({ entry }: Props) {
  const jobId = useJobId();
  const all = useVertices();
  const [open, setOpen] = useState<string | null>(null);
  const times = useTimes();
  const { data, error, refetch } = useQuery({
    queryKey: ['checkpoint', jobId, ...markOf(entry)],
    queryFn: () => fetchCheckpoint(jobId, entry.id),
    placeholderData: keepPreviousData,
  });
  const vertices = all.filter(({ id }) => data?.tasks[id] !== undefined);
  return (
    <div className={classes.inside}>
      <dl className={classes.facts}>
        <Fact name={t('Checkpoint Type')}>
          {typeOf(entry)}
          {entry.format === undefined ? '' : `, ${entry.format.toLowerCase()}`}
        </Fact>
        <Fact name={t('Metadata Size')}>{formatBytes(entry.metadata_size)}</Fact>
        <Fact name={t('Path')}>
          {entry.discarded ? (
            <span className="tm-dim">{t('Deleted: replaced by a newer checkpoint')}</span>
          ) : (
            <CopyText text={entry.external_path} label={t('path')} />
          )}
        </Fact>
      </dl>
      {entry.failure_message !== undefined && <p className={classes.failure}>{entry.failure_message}</p>}
      {error !== null && data === undefined && (
        <FailureState
          title={t('The checkpoint’s details cannot be shown')}
          message={error.message}
          onRetry={() => void refetch()}
        />
      )}
      {error === null && data === undefined && <Skeleton height={90} />}
      {data !== undefined && (
        <div className="tm-table-scroll">
          <table className="tm-table">
            <caption className="tm-visually-hidden">{t('Vertices of checkpoint {id}', { id: entry.id })}</caption>
            <thead>
              <tr>
                <th scope="col">{t('Name')}</th>
                <th scope="col">{t('Acknowledged')}</th>
                <th scope="col">{t('Latest Acknowledgment')}</th>
                <Number>{t('End to End Duration')}</Number>
                <Number>{t('Checkpointed Data Size')}</Number>
                <Number>{t('Full Checkpoint Data Size')}</Number>
                <Number>{t('Processed (persisted) in-flight data')}</Number>
              </tr>
            </thead>
            <tbody>
              {vertices.map(({ id, name }) => {
                const task = data.tasks[id];
                if (task === undefined) return null;
                return (
                  <Fragment key={id}>
                    <tr>
                      <td className={classes.name} title={name}>
                        <button
                          type="button"
                          className={classes.toggle}
                          aria-expanded={open === id}
                          onClick={() => setOpen(open === id ? null : id)}
                        >
                          <IconChevronRight size={15} aria-hidden /> {name}
                        </button>
                      </td>
                      <td>{acknowledged(task)}</td>
                      <td>{task.latest_ack_timestamp < 0 ? '–' : times.time(task.latest_ack_timestamp)}</td>
                      <td className="tm-num">{formatDuration(task.end_to_end_duration)}</td>
                      <td className="tm-num">{formatBytes(task.checkpointed_size)}</td>
                      <td className="tm-num">{formatBytes(task.state_size)}</td>
                      <td className="tm-num">
                        {formatBytes(task.processed_data)} ({formatBytes(task.persisted_data)})
                      </td>
                    </tr>
                    {open === id && (
                      <tr className={classes.detailsRow}>
                        <td className={classes.details} colSpan={7}>
                          <Subtasks entry={entry} vertexId={id} />
                        </td>
                      </tr>
                    )}
                  </Fragment>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}

function Subtasks({ entry, vertexId }: Props & { readonly vertexId: string }) {
  const jobId = useJobId();
  const { data, error, refetch } = useQuery({
    queryKey: ['checkpoint-subtasks', jobId, vertexId, ...markOf(entry)],
    queryFn: () => fetchCheckpointSubtasks(jobId, entry.id, vertexId),
    placeholderData: keepPreviousData,
  });
  if (error !== null && data === undefined) {
    return (
      <FailureState
        title={t('The checkpoint’s subtasks cannot be shown')}
        message={error.message}
        onRetry={() => void refetch()}
      />
    );
  }
  return (
    <div className={classes.inside}>
      {data === undefined ? (
        <Skeleton height={60} />
      ) : (
        <div className="tm-table-scroll" tabIndex={0}>
          <table className="tm-table">
            <caption className="tm-visually-hidden">{t('Subtasks of checkpoint {id}', { id: entry.id })}</caption>
            <thead>
              <tr>
                <th scope="col">{t('Subtask')}</th>
                <th scope="col">{t('Acknowledged')}</th>
                <Number>{t('End to End Duration')}</Number>
                <Number>{t('Sync Duration')}</Number>
                <Number>{t('Async Duration')}</Number>
                <Number>{t('Alignment Duration')}</Number>
                <Number>{t('Start Delay')}</Number>
                <Number>{t('Checkpointed Data Size')}</Number>
                <Number>{t('Full Checkpoint Data Size')}</Number>
                <Number>{t('Processed (persisted) in-flight data')}</Number>
                <th scope="col">{t('Unaligned Checkpoint')}</th>
              </tr>
            </thead>
            <tbody>
              {data.subtasks.map((subtask) => (
                <SubtaskRow key={subtask.index} subtask={subtask} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}

function SubtaskRow({ subtask }: { readonly subtask: CheckpointSubtask }) {
  const times = useTimes();
  if (subtask.status !== 'completed') {
    return (
      <tr>
        <td>{subtask.index}</td>
        <td colSpan={10} className={classes.pending}>
          {t('Not acknowledged')}
        </td>
      </tr>
    );
  }
  const { alignment } = subtask;
  return (
    <tr>
      <td>{subtask.index}</td>
      <td>{times.time(subtask.ack_timestamp)}</td>
      <td className="tm-num">{formatDuration(subtask.end_to_end_duration)}</td>
      <td className="tm-num">{formatDuration(subtask.checkpoint.sync)}</td>
      <td className="tm-num">{formatDuration(subtask.checkpoint.async)}</td>
      <td className="tm-num">{formatDuration(alignment.duration)}</td>
      <td className="tm-num">{formatDuration(subtask.start_delay)}</td>
      <td className="tm-num">{formatBytes(subtask.checkpointed_size)}</td>
      <td className="tm-num">{formatBytes(subtask.state_size)}</td>
      <td className="tm-num">
        {formatBytes(alignment.processed)} ({formatBytes(alignment.persisted)})
      </td>
      <td>{subtask.unaligned_checkpoint ? t('Yes') : t('No')}</td>
    </tr>
  );
}

function Number({ children }: { readonly children: string }) {
  return (
    <th scope="col" className="tm-num">
      {children}
    </th>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
