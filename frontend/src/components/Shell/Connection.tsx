/** Whether what is on the page is live: a small indicator in the header, and a banner when it is not. */

import { IconAlertTriangle } from '@tabler/icons-react';

import { useConnection } from '../../hooks/useLive';
import { useTimes } from '../../hooks/useTimes';
import classes from './Connection.module.css';

export function ConnectionIndicator() {
  const { staleSince, isConnecting } = useConnection();
  const state = staleSince !== null ? 'stale' : isConnecting ? 'connecting' : 'live';
  const text = { stale: 'Stale', connecting: 'Connecting', live: 'Live' }[state];
  return (
    <span className={classes.indicator} data-state={state} role="status" aria-label={`Connection: ${text}`}>
      <span className={classes.dot} aria-hidden />
      {text}
    </span>
  );
}

export function StaleBanner() {
  const { staleSince } = useConnection();
  const times = useTimes();
  if (staleSince === null) return null;
  return (
    <div className={classes.banner} role="alert">
      <IconAlertTriangle size={17} aria-hidden />
      <span>
        <strong>Stale since {times.time(staleSince)}.</strong> The live connection is down; reconnecting, and asking the
        server every 5 s until then.
      </span>
    </div>
  );
}
