/** Busy, back-pressured and idle time as one bar with its numbers. */

import type { Metrics } from '../../gen/live';
import { formatShare } from '../../model/format';
import classes from './LoadBar.module.css';

interface Props {
  readonly metrics: Pick<Metrics, 'busy' | 'idle' | 'back_pressured'>;
}

export function LoadBar({ metrics }: Props) {
  const { busy, back_pressured: backPressured, idle } = metrics;
  // of a vertex these are the extremes over its subtasks and need not add up: the bar shows at most the whole
  const scale = 100 / Math.max(1000, busy + backPressured);
  return (
    <span className={classes.load}>
      <span className={classes.bar} aria-hidden>
        <span className={classes.busy} style={{ width: `${busy * scale}%` }} />
        <span className={classes.backPressured} style={{ width: `${backPressured * scale}%` }} />
      </span>
      <span className={classes.numbers}>
        <Share name="busy" kind="busy" value={busy} />
        <Share name="backpr." kind="backPressured" value={backPressured} />
        <Share name="idle" kind="idle" value={idle} />
      </span>
    </span>
  );
}

interface ShareProps {
  readonly name: string;
  readonly kind: 'busy' | 'backPressured' | 'idle';
  readonly value: number;
}

function Share({ name, kind, value }: ShareProps) {
  return (
    <span className={classes.share}>
      <span className={`${classes.dot ?? ''} ${classes[kind] ?? ''}`} aria-hidden />
      {name}
      <span className={classes.value}>{formatShare(value)}</span>
    </span>
  );
}
