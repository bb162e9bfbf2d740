/** Shows whether the page is live: an indicator in the header, and a banner if it is not. */

import { IconAlertTriangle } from '@tabler/icons-react';

import { useConnection } from '../../hooks/useLive';
import { useTimes } from '../../hooks/useTimes';
import { t } from '../../texts/t';
import classes from './Connection.module.css';

export function ConnectionIndicator() {
  const { stale, isConnecting } = useConnection();
  const state = stale !== null ? 'stale' : isConnecting ? 'connecting' : 'live';
  const text = { stale: t('Stale'), connecting: t('Connecting'), live: t('Live') }[state];
  return (
    <span className={classes.indicator} data-state={state} role="status" aria-label={t('Connection: {text}', { text })}>
      <span className={classes.dot} aria-hidden />
      {text}
    </span>
  );
}

export function StaleBanner() {
  const { stale } = useConnection();
  const times = useTimes();
  if (stale === null) return null;
  return (
    <div className={classes.banner} role="alert">
      <IconAlertTriangle size={17} aria-hidden />
      <span>
        <strong>
          {stale.since === null ? t('Stale.') : t('Stale since {since}.', { since: times.time(stale.since) })}
        </strong>{' '}
        {stale.reason}
      </span>
    </div>
  );
}
