/** What holds a running job up, in a line for each cause that leads to the vertex; by the rule of `tidemark info`. */

import { IconBulb, IconCircleCheck } from '@tabler/icons-react';

import type { CauseTopic, JobCause } from '../../gen/contract';
import { useJobPart, useVertex } from '../../hooks/useJob';
import { VertexLink } from '../VertexLink/VertexLink';
import classes from './Why.module.css';

interface Props {
  readonly onSelect: (id: string) => void;
}

/** By their weight. */
const TOPICS: readonly CauseTopic[] = ['limit', 'watermark', 'late', 'pending', 'memory'];

export function Why({ onSelect }: Props) {
  const causes = useJobPart(({ derived }) => derived.causes);
  const isRunning = useJobPart(({ moving }) => moving.job.state === 'RUNNING');
  if (!isRunning) return null;
  const found = TOPICS.flatMap((topic) => {
    const cause = causes[topic];
    return cause === undefined ? [] : [{ topic, cause }];
  });
  return (
    <div className={classes.lines} role="group" aria-label="Why">
      {found.length === 0 && (
        <p className={classes.line}>
          <IconCircleCheck size={17} aria-hidden />
          <span>
            <strong>Why:</strong> nothing holds the job up.
          </span>
        </p>
      )}
      {found.map(({ topic, cause }) => (
        <Line key={topic} cause={cause} onSelect={onSelect} />
      ))}
    </div>
  );
}

function Line({ cause, onSelect }: Props & { readonly cause: JobCause }) {
  const name = useVertex(cause.vertex)?.name ?? cause.vertex;
  return (
    <p className={classes.line} data-found>
      <IconBulb size={17} aria-hidden />
      <span className={classes.text}>
        <strong>Why:</strong>{' '}
        <VertexLink id={cause.vertex} name={name} onSelect={onSelect} />{' '}
        <span className="tm-live">{cause.text}</span>
      </span>
    </p>
  );
}
