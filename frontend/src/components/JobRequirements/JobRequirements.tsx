/** Between which bounds the parallelism of each vertex may be, and why the job has less than it may. */

import { Button, NumberInput } from '@mantine/core';
import { useState } from 'react';

import { changeRequirements } from '../../api/checkpoints';
import { useJob, useVertices } from '../../hooks/useJob';
import { useOperation } from '../../hooks/useOperation';
import { useRole } from '../../hooks/useSession';
import { mayOperate } from '../../model/access';
import type { Vertex } from '../../model/job';
import { type Bounds, boundsOf, boundsProblem, changedBounds, type Draft, edited } from '../../model/requirements';
import { t } from '../../texts/t';
import { Panel } from '../Panel/Panel';
import classes from './JobRequirements.module.css';

const NOTHING: Draft = {};
const NAMES = { lower: t('Lower bound'), upper: t('Upper bound') } as const;

export function JobRequirements() {
  const job = useJob();
  const vertices = useVertices();
  const isAllowed = mayOperate(useRole());
  const [draft, setDraft] = useState(NOTHING);
  const { start, isAsking, error } = useOperation<Record<string, Bounds>>({
    jobId: job.id,
    kind: 'rescale',
    ask: (wanted, triggerId) => changeRequirements(job.id, wanted, triggerId),
    onAsked: () => setDraft(NOTHING),
    titles: [
      t('Changing the requirements'),
      t('The job has its new requirements'),
      t('The requirements were not changed'),
    ],
  });
  const changed = changedBounds(vertices, draft);
  const isChanged = Object.keys(changed).length > 0;
  const mistake = boundsProblem(vertices, changed);
  const problem = mistake ?? error?.message ?? null;
  const field = (vertex: Vertex, bound: keyof Bounds) =>
    isAllowed ? (
      <NumberInput
        size="xs"
        className={classes.field ?? ''}
        aria-label={t('{bound} of {name}', { bound: NAMES[bound], name: vertex.name })}
        min={1}
        max={vertex.max_parallelism}
        clampBehavior="none"
        value={draft[vertex.id]?.[bound] ?? boundsOf(vertex)[bound]}
        onChange={(value) => setDraft((old) => edited(old, vertex, bound, value))}
      />
    ) : (
      boundsOf(vertex)[bound]
    );
  return (
    <Panel
      flush
      title={t('Job requirements')}
      actions={
        isChanged && (
          <div className={classes.actions}>
            <Button size="xs" variant="default" onClick={() => setDraft(NOTHING)}>
              {t('Reset')}
            </Button>
            <Button size="xs" loading={isAsking} disabled={mistake !== null} onClick={() => start(changed)}>
              {t('Apply')}
            </Button>
          </div>
        )
      }
    >
      {job.scaling !== undefined && job.scaling !== '' && (
        <p role="status" className={classes.scaling}>
          {job.scaling}
        </p>
      )}
      {job.has_autoscaler_bounds === true && (
        <p role="note" className={classes.scaling}>
          {t(
            "The autoscaler's bounds. If you set bounds, vertices for which you set none keep their current parallelism.",
          )}
        </p>
      )}
      {problem !== null && (
        <p role="alert" className={classes.problem}>
          {problem}
        </p>
      )}
      <div className="tm-table-scroll">
        <table className="tm-table">
          <caption className="tm-visually-hidden">{t('Job requirements')}</caption>
          <thead>
            <tr>
              <th scope="col">{t('Vertex')}</th>
              <th scope="col" className="tm-num">
                {t('Parallelism')}
              </th>
              <th scope="col" className="tm-num">
                {t('Lower bound')}
              </th>
              <th scope="col" className="tm-num">
                {t('Upper bound')}
              </th>
              <th scope="col" className="tm-num">
                {t('Max parallelism')}
              </th>
            </tr>
          </thead>
          <tbody>
            {vertices.map((vertex) => (
              <tr key={vertex.id}>
                <td className={classes.name} title={vertex.name}>
                  {vertex.name}
                </td>
                <td className="tm-num">{vertex.parallelism}</td>
                <td className="tm-num">{field(vertex, 'lower')}</td>
                <td className="tm-num">{field(vertex, 'upper')}</td>
                <td className="tm-num">{vertex.max_parallelism}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
