/** Tells on the page of a job that has ended which job goes on in its place, after a switch of its execution. */

import { IconArrowsExchange } from '@tabler/icons-react';
import { Link } from 'react-router';

import { useSwitch } from '../../hooks/useSwitch';
import type { Job } from '../../model/job';
import { isTerminal } from '../../model/states';
import { hasFailed, switchText } from '../../model/switches';
import { t } from '../../texts/t';
import classes from './JobNotices.module.css';

export function SwitchNotice({ job }: { readonly job: Job }) {
  const isEnded = isTerminal(job.state);
  const found = useSwitch(job.id, isEnded);
  // a job that was the outcome of a switch, and has ended since, has nothing to say of it
  if (!isEnded || found === null || found.goes_on_as === job.id) return null;
  return (
    <p className={classes.notice} data-tone={hasFailed(found) ? 'trouble' : 'waiting'}>
      <IconArrowsExchange size={17} aria-hidden />
      <span className={classes.text}>
        <strong>{t('Execution')}:</strong> {switchText(found)}
      </span>
      {found.goes_on_as !== null && (
        <Link className={classes.more ?? ''} to={`/jobs/${found.goes_on_as}`}>
          {t('Goes on as {job}', { job: found.goes_on_as.slice(0, 8) })}
        </Link>
      )}
    </p>
  );
}
