/** Rows that pass an edge of a running vertex, a few a second, with their event times and the marks between them. */

import { Button, Select } from '@mantine/core';
import { IconEye, IconPlayerPause, IconPlayerPlay, IconPlayerStop } from '@tabler/icons-react';
import { useState } from 'react';

import { useJobPart, useVertices } from '../../hooks/useJob';
import { useQueryParam } from '../../hooks/useQueryParam';
import { useRole } from '../../hooks/useSession';
import { useTimes } from '../../hooks/useTimes';
import { mayOperate } from '../../model/access';
import { formatCount, formatDuration } from '../../model/format';
import type { Vertex } from '../../model/job';
import { type PeekableEdge, type ShownElement, latenessOf, peekableEdges, valueText } from '../../model/peek';
import { t } from '../../texts/t';
import { EmptyState } from '../EmptyState/EmptyState';
import flame from './FlameTab.module.css';
import classes from './PeekTab.module.css';
import { usePeek } from './usePeek';

const ALL = 'all';

interface Props {
  readonly jobId: string;
  readonly vertex: Vertex;
}

export function PeekTab({ jobId, vertex }: Props) {
  const late = useJobPart(({ derived }) => derived.late_records);
  const edges = [...peekableEdges(useVertices(), vertex.id, late)];
  const [chosen, choose] = useQueryParam('peek');
  const found = edges.find(({ key }) => key === chosen);
  // late records are not among the figures for a moment while a job is rescaled: the peek goes on
  const [last, setLast] = useState<PeekableEdge | null>(null);
  if (found !== undefined && found.key !== last?.key) setLast(found);
  const kept = found ?? (last?.key === chosen ? last : null);
  if (kept !== null && found === undefined) edges.push(kept);
  const edge = kept ?? edges[0];
  const isAllowed = mayOperate(useRole());
  if (!isAllowed) {
    return (
      <EmptyState compact icon={IconEye} title={t('Rows are for operators')}>
        {t('They may be personal data. Your role does not include looking at them.')}
      </EmptyState>
    );
  }
  if (edge === undefined) return <EmptyState compact icon={IconEye} title={t('This vertex has no edges')} />;
  return (
    <>
      <Select
        size="xs"
        mb={10}
        allowDeselect={false}
        label={t('Edge')}
        value={edge.key}
        onChange={choose}
        data={edges.map(({ key, label }) => ({ value: key, label }))}
      />
      <EdgePeek key={edge.key} jobId={jobId} edge={edge} isRunning={vertex.state === 'RUNNING'} />
    </>
  );
}

interface EdgePeekProps {
  readonly jobId: string;
  readonly edge: PeekableEdge;
  readonly isRunning: boolean;
}

function EdgePeek({ jobId, edge, isRunning }: EdgePeekProps) {
  const { isOpen, isBeginning, counts, elements, error, begin, stop } = usePeek(jobId);
  const [subtask, setSubtask] = useState(ALL);
  /** What is shown while the table stands still; null: it goes on. */
  const [held, setHeld] = useState<readonly ShownElement[] | null>(null);
  const shown = held ?? elements;
  const start = () => {
    setHeld(null);
    begin({ ...edge.wanted, ...(subtask === ALL ? {} : { subtasks: [Number(subtask)] }) });
  };
  return (
    <>
      <div className={flame.tools}>
        {isOpen ? (
          <>
            <Button
              size="compact-sm"
              variant="default"
              leftSection={
                held === null ? <IconPlayerPause size={14} aria-hidden /> : <IconPlayerPlay size={14} aria-hidden />
              }
              onClick={() => setHeld(held === null ? elements : null)}
            >
              {held === null ? t('Pause') : t('Go on')}
            </Button>
            <Button
              size="compact-sm"
              variant="default"
              leftSection={<IconPlayerStop size={14} aria-hidden />}
              onClick={stop}
            >
              {t('Stop')}
            </Button>
          </>
        ) : (
          <>
            <Button
              size="compact-sm"
              variant="default"
              leftSection={<IconEye size={14} aria-hidden />}
              loading={isBeginning}
              disabled={!isRunning}
              onClick={start}
            >
              {t('Peek')}
            </Button>
            {edge.parallelism > 1 && (
              <Select
                size="xs"
                w={130}
                allowDeselect={false}
                aria-label={t('Subtask')}
                value={subtask}
                onChange={(value) => setSubtask(value ?? ALL)}
                data={[
                  { value: ALL, label: t('All subtasks') },
                  ...Array.from({ length: edge.parallelism }, (_, index) => ({
                    value: String(index),
                    label: t('Subtask {index}', { index }),
                  })),
                ]}
              />
            )}
          </>
        )}
        <span role="status" className="tm-dim">
          {error || (isRunning ? isOpen && counts?.problem : t('The vertex does not run.'))}
        </span>
      </div>
      {counts !== null && (
        <p className={flame.note}>
          {formatCount(counts.rows)}{' '}
          {edge.wanted.late === undefined ? t('rows have passed.') : t('records were dropped as late.')}
          {counts.dropped > 0 &&
            ` ${t('{dropped} were too much to be shown.', { dropped: formatCount(counts.dropped) })}`}
        </p>
      )}
      {shown.length === 0 ? (
        <EmptyState compact icon={IconEye} title={isOpen ? t('Nothing has passed yet') : t('Nobody looks')}>
          {edge.wanted.late === undefined
            ? t('A peek shows up to 20 rows a second.')
            : t('A peek shows the last 20 samples of each subtask, at most ten a second.')}{' '}
          {t('It never holds up the job, columns that look like secrets are masked, and it ends with this page.')}
        </EmptyState>
      ) : (
        <Rows elements={shown} />
      )}
    </>
  );
}

function Rows({ elements }: { readonly elements: readonly ShownElement[] }) {
  const times = useTimes();
  return (
    <div className={`tm-table-scroll ${classes.scroller ?? ''}`} tabIndex={0}>
      <table className="tm-table">
        <caption className="tm-visually-hidden">{t('Rows and marks, the newest first')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('Event Time')}</th>
            <th scope="col">{t('Kind')}</th>
            <th scope="col" className="tm-num">
              {t('Subtask')}
            </th>
            <th scope="col">{t('Row')}</th>
          </tr>
        </thead>
        <tbody>
          {elements.toReversed().map((element) => (
            <tr key={element.id} data-kind={element.kind} className={classes.element}>
              <td className={classes.time}>
                {element.timestamp === null ? '–' : times.watermark(element.timestamp)}
                {element.isLate && <span className={classes.late}>{t('late')}</span>}
                {element.kind === 'late' && (
                  <span className={classes.late}>
                    {t('{time} late', { time: formatDuration(latenessOf(element)) })}
                  </span>
                )}
                {element.kind === 'late' && (
                  <div className="tm-dim">
                    {t('Watermark {watermark}', { watermark: times.watermark(element.watermark) })}
                  </div>
                )}
              </td>
              <td>{element.row_kind}</td>
              <td className="tm-num">{element.subtask}</td>
              <td className="tm-mono tm-break">
                {MARKS[element.kind]?.(element) ?? valueText(element.value)}
                {element.is_cut && <span className="tm-dim"> {t('shortened')}</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What stands in place of a value. */
const MARKS: Partial<Record<ShownElement['kind'], (element: ShownElement) => string>> = {
  watermark: () => t('Watermark'),
  status: ({ text }) => (text === 'IDLE' ? t('Idle') : t('Active')),
  barrier: ({ text }) => t('Barrier of checkpoint {text}', { text }),
  end: () => t('End of input'),
};
