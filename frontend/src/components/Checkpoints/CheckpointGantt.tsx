/** The last checkpoints, each a bar of its phases; a row expands to its subtasks, the slowest first. */

import { Button, Skeleton, Switch } from '@mantine/core';
import { IconChevronRight } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, useState } from 'react';
import { Link } from 'react-router';

import { fetchCheckpointGantt } from '../../api/checkpoints';
import type { CheckpointTrace, JobCheckpoints, SubtaskTrace } from '../../gen/contract';
import { useJobId } from '../../hooks/useJob';
import { useServerNow } from '../../hooks/useNow';
import { useOpenItems } from '../../hooks/useOpenItems';
import { useTimes } from '../../hooks/useTimes';
import { toneOfCheckpoint, typeOf } from '../../model/checkpoints';
import { formatDuration } from '../../model/format';
import {
  EXPLANATIONS,
  PHASES,
  type Segment,
  lastedOf,
  longestOf,
  nameOf,
  phasesText,
  scaleOf,
  segmentsOf,
  segmentsOfSubtask,
} from '../../model/gantt';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import { FailureState } from '../EmptyState/EmptyState';
import { Panel } from '../Panel/Panel';
import { ToneBadge } from '../StateBadge/StateBadge';
import classes from './CheckpointGantt.module.css';

/** More of them are a page of bars before anything else. */
const SHOWN_AT_FIRST = 12;

interface Props {
  readonly checkpoints: JobCheckpoints;
}

/** Changes whenever a trace does. */
function markOf({ counts, history }: JobCheckpoints): string {
  const acks = Object.values(history).filter(({ status }) => status === 'IN_PROGRESS');
  return JSON.stringify([counts, acks.map(({ id, num_acknowledged_subtasks: n }) => [id, n])]);
}

export function CheckpointGantt({ checkpoints }: Props) {
  const jobId = useJobId();
  const { data, error, refetch } = useQuery({
    queryKey: ['checkpoint-gantt', jobId, markOf(checkpoints)],
    queryFn: () => fetchCheckpointGantt(jobId),
    placeholderData: keepPreviousData,
    // every acknowledgement makes another key
    gcTime: 0,
  });
  if (data === undefined) {
    return (
      <Panel title={t('Phases')}>
        {error === null ? (
          <Skeleton height={160} />
        ) : (
          <FailureState
            title={t('The checkpoints’ phases cannot be shown')}
            message={error.message}
            onRetry={() => void refetch()}
          />
        )}
      </Panel>
    );
  }
  return data.checkpoints.length === 0 ? null : <Gantt traces={data.checkpoints} />;
}

export function Gantt({ traces }: { readonly traces: readonly CheckpointTrace[] }) {
  const now = useServerNow();
  const [open, toggle] = useOpenItems('phases');
  const [isWhole, setWhole] = useState(() => traces.slice(SHOWN_AT_FIRST).some(({ id }) => open.has(String(id))));
  /** Whether the newest one is open, whichever that is. */
  const [isFollowing, setFollowing] = useState(false);
  const newest = traces[0]?.id;
  const shown = isWhole ? traces : traces.slice(0, SHOWN_AT_FIRST);
  const scale = scaleOf(shown.map((trace) => lastedOf(trace, now)));
  const isOpen = (id: number) => open.has(String(id)) || (isFollowing && id === newest);
  const toggleOne = (id: number) => {
    const isFollowed = isFollowing && id === newest;
    if (isFollowed) setFollowing(false);
    // what is followed may be open by that alone
    if (!isFollowed || open.has(String(id))) toggle(String(id));
  };
  return (
    <Panel
      title={t('Phases')}
      flush
      actions={
        <Switch
          size="xs"
          label={t('Follow newest')}
          checked={isFollowing}
          onChange={(event) => setFollowing(event.currentTarget.checked)}
        />
      }
    >
      <p className={classes.about}>
        {t(
          'The phases of the subtask that acknowledged last, from the trigger on. The whole width is {scale}; longer ones are cut.',
          { scale: formatDuration(scale) },
        )}
      </p>
      <ul className={classes.legend} aria-label={t('Phases of a checkpoint')}>
        {PHASES.map((phase) => (
          <li key={phase} title={EXPLANATIONS[phase]}>
            <span className={classes.swatch} data-phase={phase} aria-hidden />
            {nameOf(phase)}
            <span className="tm-visually-hidden">: {EXPLANATIONS[phase]}</span>
          </li>
        ))}
      </ul>
      <ol className={classes.rows} onKeyDown={moveFocus} aria-label={t('Last checkpoints, newest first')}>
        {shown.map((trace) => (
          <Row
            key={trace.id}
            trace={trace}
            now={now}
            scale={scale}
            isOpen={isOpen(trace.id)}
            onToggle={() => toggleOne(trace.id)}
          />
        ))}
      </ol>
      {traces.length > SHOWN_AT_FIRST && (
        <p className={classes.more}>
          <Button variant="subtle" size="xs" onClick={() => setWhole(!isWhole)}>
            {isWhole
              ? t('Show the last {count}', { count: SHOWN_AT_FIRST })
              : t('Show the last {count}', { count: traces.length })}
          </Button>
        </p>
      )}
    </Panel>
  );
}

/** Arrow keys, Home and End go from row to row. */
function moveFocus(event: KeyboardEvent<HTMLOListElement>) {
  const rows = [...event.currentTarget.querySelectorAll<HTMLButtonElement>('button[aria-expanded]')];
  const at = rows.findIndex((row) => row === document.activeElement);
  const targets: Partial<Record<string, number>> = {
    ArrowDown: at + 1,
    ArrowUp: at - 1,
    Home: 0,
    End: rows.length - 1,
  };
  const row = at < 0 ? undefined : rows[targets[event.key] ?? -1];
  if (row === undefined) return;
  event.preventDefault();
  row.focus();
}

interface RowProps {
  readonly trace: CheckpointTrace;
  readonly now: number;
  readonly scale: number;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

function Row({ trace, now, scale, isOpen, onToggle }: RowProps) {
  const { lost_in: lost } = trace;
  const inside = `checkpoint-${trace.id}-phases`;
  return (
    <li>
      <button
        type="button"
        className={classes.row}
        aria-expanded={isOpen}
        aria-controls={isOpen ? inside : undefined}
        onClick={onToggle}
      >
        <span className={classes.id}>
          <IconChevronRight size={15} aria-hidden />
          <span className="tm-visually-hidden">{t('Checkpoint')} </span>
          {trace.id}
        </span>
        <span className={classes.status}>
          <ToneBadge tone={toneOfCheckpoint(trace.status)} plain isPassing={trace.status === 'IN_PROGRESS'}>
            {trace.status.replace('_', ' ')}
          </ToneBadge>
        </span>
        <Bar segments={segmentsOf(trace, now)} scale={scale} status={trace.status} />
        <span className={classes.lasted}>{formatDuration(lastedOf(trace, now))}</span>
        <span className={classes.lost}>
          {lost === undefined ? (
            t('{numAcknowledgedSubtasks} of {numSubtasks} acknowledged', {
              numAcknowledgedSubtasks: trace.num_acknowledged_subtasks,
              numSubtasks: trace.num_subtasks,
            })
          ) : (
            <>
              {nameOf(lost.phase)} {formatDuration(lost.duration)}
            </>
          )}
        </span>
      </button>
      {isOpen && <Inside id={inside} trace={trace} />}
    </li>
  );
}

function Inside({ id, trace }: { readonly id: string; readonly trace: CheckpointTrace }) {
  const times = useTimes();
  const scale = Math.max(1, ...trace.subtasks.map(({ end_to_end_duration: lasted = 0 }) => lasted));
  const others = trace.num_subtasks - trace.subtasks.length;
  return (
    <div id={id} className={classes.inside}>
      <p className={classes.text}>
        {rich('{kind}, triggered {time}{text}.', {
          kind: typeOf(trace),
          time: times.dateTime(trace.trigger_timestamp),
          text: trace.text !== '' && <>: {trace.text}</>,
        })}
      </p>
      {trace.failure_message !== undefined && <p className={classes.failure}>{trace.failure_message}</p>}
      <ol className={classes.subtasks} aria-label={t('Subtasks of checkpoint {id}, slowest first', { id: trace.id })}>
        {trace.subtasks.map((subtask) => (
          <Subtask key={`${subtask.vertex} ${subtask.index}`} subtask={subtask} scale={scale} />
        ))}
      </ol>
      {others > 0 && <p className="tm-dim">{t('{others} more subtasks are not listed.', { others })}</p>}
    </div>
  );
}

function Subtask({ subtask, scale }: { readonly subtask: SubtaskTrace; readonly scale: number }) {
  const longest = longestOf(subtask);
  const lasted = subtask.end_to_end_duration;
  return (
    <li className={classes.subtask}>
      <span className={classes.who}>
        <Link className="tm-link tm-break" to={`?vertex=${encodeURIComponent(subtask.vertex)}`}>
          {subtask.name}
        </Link>{' '}
        <span className={classes.index}>{t('subtask {index}', { index: subtask.index })}</span>
        {subtask.is_unaligned && <span className="tm-dim"> {t('unaligned')}</span>}
      </span>
      {lasted === undefined ? (
        <span className={classes.missing}>
          <ToneBadge tone="waiting" plain>
            {t('Not acknowledged')}
          </ToneBadge>
        </span>
      ) : (
        <>
          <Bar segments={segmentsOfSubtask(subtask)} scale={scale} status="COMPLETED" />
          <span className={classes.lasted}>{formatDuration(lasted)}</span>
          <span className={classes.phases}>
            {segmentsOfSubtask(subtask).map(({ phase, duration }) => (
              <span key={phase} data-longest={phase === longest || undefined}>
                <span className={classes.swatch} data-phase={phase} aria-hidden /> {phase !== null && nameOf(phase)}{' '}
                {formatDuration(duration)}
                {phase === longest && <span className="tm-visually-hidden"> {t('(longest)')}</span>}
              </span>
            ))}
          </span>
        </>
      )}
    </li>
  );
}

interface BarProps {
  readonly segments: readonly Segment[];
  /** The duration that fills the width, ms. */
  readonly scale: number;
  readonly status: CheckpointTrace['status'];
}

function Bar({ segments, scale, status }: BarProps) {
  const total = segments.reduce((sum, { duration }) => sum + duration, 0);
  return (
    <span
      className={classes.bar}
      data-status={status}
      data-cut={total > scale || undefined}
      title={phasesText(segments)}
    >
      <span className="tm-visually-hidden">{phasesText(segments)}</span>
      {segments.map(({ phase, duration }) => (
        <span
          key={phase}
          aria-hidden
          className={classes.segment}
          data-phase={phase ?? 'unknown'}
          style={{ width: `${(100 * duration) / scale}%` }}
        />
      ))}
    </span>
  );
}
