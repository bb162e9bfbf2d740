/** Rescales a job to other parallelisms, from a checkpoint taken for that. */

import { NumberInput } from '@mantine/core';
import { Fragment, useState } from 'react';

import { rescaleJob } from '../../api/checkpoints';
import { useVertices } from '../../hooks/useJob';
import { useOperation } from '../../hooks/useOperation';
import { largestParallelism, limitsBelow } from '../../model/checkpoints';
import type { Job, Vertex } from '../../model/job';
import { AskDialog } from './AskDialog';
import classes from './JobActions.module.css';

interface Props {
  readonly job: Job;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly onClosed: () => void;
}

export function RescaleJob({ job, isOpen, onClose, onClosed }: Props) {
  const vertices = useVertices();
  const [wanted, setWanted] = useState(() => parallelisms(vertices));
  const largest = largestParallelism(vertices);
  const [asked, setAsked] = useState(largest);
  const { start, isAsking, error } = useOperation<Record<string, number>>({
    jobId: job.id,
    ask: (request, triggerId) => rescaleJob(job.id, request, triggerId),
    onAsked: onClose,
    titles: ['Rescaling the job', 'The job runs with its new parallelism', 'The job was not rescaled'],
  });
  const changed = Object.fromEntries(
    vertices
      .filter(({ id, parallelism }) => wanted[id] !== undefined && wanted[id] !== parallelism)
      .map(({ id }) => [id, wanted[id] ?? 1]),
  );
  const set = (those: readonly Vertex[], value: string | number) => {
    const number = Number(value);
    if (value === '' || !Number.isInteger(number) || number < 1) return;
    const limited = those.map((vertex) => [vertex.id, Math.min(number, vertex.max_parallelism)]);
    setWanted((old) => ({ ...old, ...(Object.fromEntries(limited) as Record<string, number>) }));
  };
  const ofTheJob = vertices.filter(({ parallelism }) => parallelism === largest);
  const limits = limitsBelow(asked, ofTheJob);
  return (
    <AskDialog
      title="Rescale this job"
      isOpen={isOpen}
      onClose={onClose}
      onClosed={onClosed}
      onSubmit={() => start(changed)}
      action="Rescale"
      isBusy={isAsking}
      isDisabled={Object.keys(changed).length === 0}
      problem={error?.message ?? null}
    >
      <p className={classes.text}>
        <strong>{job.name}</strong> takes a checkpoint and continues from it with the new parallelism.
      </p>
      <NumberInput
        label="Parallelism"
        description={
          ofTheJob.length === vertices.length
            ? 'For all vertices'
            : `For the ${ofTheJob.length} vertices with the job’s parallelism, ${largest}`
        }
        min={1}
        max={32768}
        allowDecimal={false}
        defaultValue={largest}
        onChange={(value) => {
          set(ofTheJob, value);
          setAsked(Number(value));
        }}
        data-autofocus
      />
      {limits !== '' && (
        <p className={classes.limits} role="status">
          {limits}
        </p>
      )}
      <div className={classes.vertices}>
        {vertices.map((vertex) => (
          <Fragment key={vertex.id}>
            <span className={classes.vertex} title={vertex.name}>
              {vertex.name} <span className={classes.limit}>up to {vertex.max_parallelism}</span>
            </span>
            <NumberInput
              size="xs"
              aria-label={`Parallelism of ${vertex.name}`}
              min={1}
              max={vertex.max_parallelism}
              allowDecimal={false}
              value={wanted[vertex.id] ?? vertex.parallelism}
              onChange={(value) => set([vertex], value)}
            />
          </Fragment>
        ))}
      </div>
    </AskDialog>
  );
}

function parallelisms(vertices: readonly Vertex[]): Record<string, number> {
  return Object.fromEntries(vertices.map(({ id, parallelism }) => [id, parallelism]));
}
