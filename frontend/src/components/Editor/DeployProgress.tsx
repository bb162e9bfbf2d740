/** How far a deployment is: its phases, what it came to, and the way to its job. */

import { Loader } from '@mantine/core';
import { IconAlertTriangle, IconArrowBackUp, IconCheck, IconCircleDashed } from '@tabler/icons-react';
import { Link } from 'react-router';

import type { DeploymentAnswer } from '../../gen/contract';
import { useTimes } from '../../hooks/useTimes';
import { type Phase, isUnderWay, outcomeOf, phasesOf } from '../../model/pipeline/deployment';
import { t } from '../../texts/t';
import classes from './Deploy.module.css';

interface Props {
  readonly deployment: DeploymentAnswer;
  /** Number of the version that it replaces; null: not known, or none. */
  readonly old: number | null;
  /** The job that runs now. */
  readonly jobId: string | null;
}

export function DeployProgress({ deployment, old, jobId }: Props) {
  const times = useTimes();
  const isOpen = isUnderWay(deployment);
  const isGood = deployment.state === 'RUNNING';
  return (
    <>
      <ol className={classes.phases} aria-label={t('Phases of the deployment')}>
        {phasesOf(deployment).map((phase) => (
          <li
            key={phase.state}
            className={classes.phase}
            data-is={phase.is}
            data-back={phase.state.startsWith('ROLL') || undefined}
            aria-current={phase.is === 'now' ? 'step' : undefined}
          >
            <Sign phase={phase} />
            <span>
              {phase.text} <span className={classes.state}>{phase.state}</span>
              <span className="tm-visually-hidden">{phase.is === 'ahead' ? t(', not yet') : `, ${phase.is}`}</span>
            </span>
            <span className={classes.when}>{phase.at === null ? '' : times.time(phase.at)}</span>
          </li>
        ))}
      </ol>
      <div
        className={classes.outcome}
        data-tone={isOpen ? undefined : isGood ? 'running' : 'failed'}
        role="status"
        aria-label={t('Outcome')}
      >
        {outcomeOf(deployment, old)}
        {deployment.message !== '' && <pre className={classes.why}>{deployment.message}</pre>}
      </div>
      {jobId !== null && (
        <p>
          <Link className="tm-link" to={`/jobs/${jobId}`}>
            {t('Open the job')}
          </Link>
          {!isGood && !isOpen && deployment.job_id !== null && deployment.job_id !== jobId && (
            <>
              {' · '}
              <Link className="tm-link" to={`/jobs/${deployment.job_id}?tab=exceptions`}>
                {t('What the failed job says')}
              </Link>
            </>
          )}
        </p>
      )}
    </>
  );
}

function Sign({ phase }: { readonly phase: Phase }) {
  if (phase.is === 'now') return <Loader size={16} aria-hidden />;
  if (phase.is === 'ahead') return <IconCircleDashed size={17} aria-hidden />;
  if (phase.is === 'failed') return <IconAlertTriangle size={17} aria-hidden />;
  return phase.state.startsWith('ROLL') ? (
    <IconArrowBackUp size={17} aria-hidden />
  ) : (
    <IconCheck size={17} stroke={2.2} aria-hidden />
  );
}
