/** The strip at the top of a job's page: one line each for failures, restarts and what the job waits for. */

import { type Icon, IconAlertOctagon, IconAlertTriangle, IconHourglass } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

import { type Notice, type Told, jobNotices } from '../../model/notices';
import { t } from '../../texts/t';
import classes from './JobNotices.module.css';

const ICONS: Record<Notice['tone'], Icon> = {
  failed: IconAlertOctagon,
  trouble: IconAlertTriangle,
  waiting: IconHourglass,
};

interface Props {
  readonly job: Told;
  /** The server's time, epoch ms. */
  readonly now: number;
  /** Further lines, before the others. */
  readonly children?: ReactNode;
}

export function JobNotices({ job, now, children }: Props) {
  // present even while empty, so that screen readers announce later content
  return (
    <div className={classes.strip} role="status" aria-label={t('Notices')}>
      {children}
      {jobNotices(job, now).map((notice) => (
        <Line key={notice.id} notice={notice} />
      ))}
    </div>
  );
}

function Line({ notice: { tone, title, text, tab } }: { readonly notice: Notice }) {
  const ToneIcon = ICONS[tone];
  return (
    <p className={classes.notice} data-tone={tone}>
      <ToneIcon size={17} aria-hidden />
      <span className={classes.text}>
        <strong>{title}:</strong> {text}
      </span>
      {tab !== undefined && (
        <Link className={classes.more ?? ''} to={`?tab=${tab}`}>
          {t('Show {tab}', { tab })}
        </Link>
      )}
    </p>
  );
}
