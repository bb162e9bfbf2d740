/** In the list: what the newest deployment of a pipeline runs as. */

import { Link } from 'react-router';

import type { PipelineListed } from '../../api/pipelines';
import { type AnyState, toneOf } from '../../model/states';
import { t } from '../../texts/t';
import { ToneBadge } from '../StateBadge/StateBadge';

const UNDER_WAY = new Set(['COMPILED', 'CHECKED', 'STOPPING', 'SUBMITTED', 'ROLLING_BACK']);

export function RunningJob({ deployment }: { readonly deployment: PipelineListed['deployment'] }) {
  if (deployment === null) return '–';
  const { state, version, job_id, job_state } = deployment;
  if (UNDER_WAY.has(state))
    return <ToneBadge tone="waiting">{t('version {version}: {state}', { version, state })}</ToneBadge>;
  if (state === 'ROLLED_BACK')
    return <ToneBadge tone="trouble">{t('version {version} rolled back', { version })}</ToneBadge>;
  if (job_id === null || job_state === null)
    return <ToneBadge tone="failed">{t('version {version}: {state}', { version, state })}</ToneBadge>;
  return (
    <Link to={`/jobs/${job_id}`} title={t('The job of version {version}', { version })}>
      <ToneBadge tone={toneOf(job_state as AnyState)} isPassing>
        {t('version {version}: {jobState}', { version, jobState: job_state })}
      </ToneBadge>
    </Link>
  );
}
