/** What holds a running job up, in a line for each cause that leads to the vertex; by the rule of `tidemark info`. */

import { type Icon, IconBulb, IconCircleCheck, IconEye } from '@tabler/icons-react';

import type { CauseTopic, JobCause } from '../../gen/contract';
import { useJobPart, useVertex } from '../../hooks/useJob';
import { t } from '../../texts/t';
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
    const cause = causes?.[topic];
    return cause === undefined ? [] : [{ topic, cause }];
  });
  return (
    <>
      {/* present even while empty, so that screen readers announce later content; without figures, which change each second */}
      <div className="tm-visually-hidden" role="status" aria-label={t('Causes')}>
        {found.map(({ topic, cause }) => (
          <Announced key={topic} cause={cause} />
        ))}
      </div>
      <div className={classes.lines} role="group" aria-label={t('Why')}>
        {causes === undefined && <Plain icon={IconEye}>{t('watching the job.')}</Plain>}
        {causes !== undefined && found.length === 0 && (
          <Plain icon={IconCircleCheck}>{t('nothing holds the job up.')}</Plain>
        )}
        {found.map(({ topic, cause }) => (
          <Line key={topic} cause={cause} onSelect={onSelect} />
        ))}
      </div>
    </>
  );
}

function Announced({ cause }: { readonly cause: JobCause }) {
  const name = useVertex(cause.vertex)?.name ?? cause.vertex;
  return <p>{t('Why: {name}: {cause}', { name, cause: cause.cause.replaceAll('-', ' ') })}</p>;
}

/** A line without a vertex; dimmed once the server no longer vouches for it. */
function Plain({ icon: PlainIcon, children }: { readonly icon: Icon; readonly children: string }) {
  return (
    <p className={`tm-live ${classes.line ?? ''}`}>
      <PlainIcon size={17} aria-hidden />
      <span>
        <strong>{t('Why:')}</strong> {children}
      </span>
    </p>
  );
}

function Line({ cause, onSelect }: Props & { readonly cause: JobCause }) {
  const name = useVertex(cause.vertex)?.name ?? cause.vertex;
  return (
    <p className={`tm-live ${classes.line ?? ''}`} data-found>
      <IconBulb size={17} aria-hidden />
      <span className={classes.text}>
        <strong>{t('Why:')}</strong> <VertexLink id={cause.vertex} name={name} onSelect={onSelect} />{' '}
        <span>{cause.text}</span>
      </span>
    </p>
  );
}
