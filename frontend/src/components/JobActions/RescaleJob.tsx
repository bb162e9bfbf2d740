/** Rescales a job to other parallelisms, from a checkpoint taken for that. */

import { NumberInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Fragment, useState } from 'react';

import { rescaleJob } from '../../api/checkpoints';
import { fetchTimeline } from '../../api/jobs';
import { useVertices } from '../../hooks/useJob';
import { useCluster } from '../../hooks/useLive';
import { useOperation } from '../../hooks/useOperation';
import { useTimes } from '../../hooks/useTimes';
import { largestParallelism, limitsBelow } from '../../model/checkpoints';
import { formatDuration } from '../../model/format';
import type { Job, Vertex } from '../../model/job';
import {
  changedParallelisms,
  MAX_PARALLELISM,
  parallelismProblem,
  slotsNeeded,
  slotsText,
} from '../../model/requirements';
import { rescalesOf } from '../../model/timeline';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import { AskDialog } from './AskDialog';
import classes from './JobActions.module.css';

interface Props {
  readonly job: Job;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  /** Moves the focus, which otherwise returns to where it was. */
  readonly onClosed?: () => void;
  /** Parallelisms to begin with, by vertex id; the others begin with those that they have. */
  readonly wished?: Readonly<Record<string, number>>;
}

export function RescaleJob({ job, isOpen, onClose, onClosed, wished = {} }: Props) {
  const vertices = useVertices();
  const largest = largestParallelism(vertices);
  const ofTheJob = vertices.filter(({ parallelism }) => parallelism === largest);
  /** As typed, for `ofTheJob`, and by vertex; both may be no parallelisms yet. */
  const [forAll, setForAll] = useState<number | string>(largest);
  const [typed, setTyped] = useState<Readonly<Record<string, number | string>>>(wished);
  const { start, isAsking, error } = useOperation<Record<string, number>>({
    jobId: job.id,
    kind: 'rescale',
    ask: (request, triggerId) => rescaleJob(job.id, request, triggerId),
    onAsked: onClose,
  });
  const problemOfAll = parallelismProblem(forAll, MAX_PARALLELISM);
  const problems = new Map(
    vertices.map(({ id, parallelism, max_parallelism: most }) => [
      id,
      parallelismProblem(typed[id] ?? parallelism, most),
    ]),
  );
  const changed = changedParallelisms(vertices, typed);
  const isWrong = problemOfAll !== null || [...problems.values()].some((problem) => problem !== null);
  const setAll = (value: number | string) => {
    setForAll(value);
    if (parallelismProblem(value, MAX_PARALLELISM) !== null) return;
    const limited = ofTheJob.map(({ id, max_parallelism: most }) => [id, Math.min(Number(value), most)]);
    setTyped((old) => ({ ...old, ...(Object.fromEntries(limited) as Record<string, number>) }));
  };
  const limits = problemOfAll === null ? limitsBelow(Number(forAll), ofTheJob) : '';
  return (
    <AskDialog
      title={t('Rescale this job')}
      isOpen={isOpen}
      onClose={onClose}
      {...(onClosed === undefined ? {} : { onClosed })}
      onSubmit={() => start(changed)}
      action={t('Rescale')}
      isBusy={isAsking}
      isDisabled={isWrong || Object.keys(changed).length === 0}
      problem={error?.message ?? null}
    >
      <p className={classes.text}>
        {rich('{name} takes a checkpoint and continues from it with the new parallelism.', {
          name: <strong>{job.name}</strong>,
        })}
      </p>
      <NumberInput
        label={t('Parallelism')}
        description={
          ofTheJob.length === vertices.length
            ? t('For all vertices')
            : t('For the {count} vertices with the job’s parallelism, {largest}', { count: ofTheJob.length, largest })
        }
        min={1}
        max={MAX_PARALLELISM}
        clampBehavior="none"
        value={forAll}
        onChange={setAll}
        error={problemOfAll}
        data-autofocus
      />
      {limits !== '' && (
        <p className={classes.limits} role="status">
          {limits}
        </p>
      )}
      <Slots vertices={vertices} wanted={changed} />
      <div className={classes.vertices}>
        {vertices.map((vertex) => (
          <Fragment key={vertex.id}>
            <span className={classes.vertex} title={vertex.name}>
              {vertex.name}{' '}
              <span className={classes.limit}>
                {t('up to {maxParallelism}', { maxParallelism: vertex.max_parallelism })}
              </span>
            </span>
            <NumberInput
              size="xs"
              aria-label={t('Parallelism of {name}', { name: vertex.name })}
              min={1}
              max={vertex.max_parallelism}
              clampBehavior="none"
              value={typed[vertex.id] ?? vertex.parallelism}
              onChange={(value) => setTyped((old) => ({ ...old, [vertex.id]: value }))}
              error={problems.get(vertex.id)}
            />
          </Fragment>
        ))}
      </div>
      {isOpen && <History jobId={job.id} />}
    </AskDialog>
  );
}

interface SlotsProps {
  readonly vertices: readonly Vertex[];
  readonly wanted: Readonly<Record<string, number>>;
}

/** Before a job is stopped for it: whether there are as many slots as it will need. */
function Slots({ vertices, wanted }: SlotsProps) {
  const { data: cluster } = useCluster();
  if (cluster === undefined) return null;
  const needed = slotsNeeded(vertices, wanted);
  const held = slotsNeeded(vertices, {});
  const free = cluster.slots_available;
  return (
    <p className={classes.slots} role="status" data-lacking={needed > held + free || undefined}>
      {slotsText(needed, held, free)}
    </p>
  );
}

/** What has rescaled the job before, by hand and by its autoscaler; nothing where nothing has. */
function History({ jobId }: { readonly jobId: string }) {
  const times = useTimes();
  const { data } = useQuery({ queryKey: ['timeline', jobId], queryFn: () => fetchTimeline(jobId) });
  const rescales = data === undefined ? [] : rescalesOf(data);
  if (rescales.length === 0) return null;
  return (
    <section aria-label={t('Earlier rescales')}>
      <h3 className={classes.history}>{t('Earlier rescales')}</h3>
      <ol className={classes.rescales}>
        {rescales.map(({ begin, end, text, is_failed: isFailed }) => (
          <li key={`${begin} ${text}`} data-failed={isFailed || undefined}>
            <span className="tm-dim">
              {times.dateTime(begin)}
              {end !== null && `, ${formatDuration(end - begin)}`}
            </span>{' '}
            {text}
          </li>
        ))}
      </ol>
    </section>
  );
}
