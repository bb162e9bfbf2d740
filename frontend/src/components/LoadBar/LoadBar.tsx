/** Busy, backpressured and idle time as one bar with its numbers; what does not run has neither. */

import { NOTHING, formatShare } from '../../model/format';
import type { Metrics } from '../../model/job';
import classes from './LoadBar.module.css';

interface Props {
  readonly metrics: Pick<Metrics, 'busy' | 'idle' | 'back_pressured'>;
  readonly isRunning: boolean;
}

export function LoadBar({ metrics, isRunning }: Props) {
  const { busy, back_pressured: backPressured, idle } = metrics;
  // of a vertex these are the extremes over its subtasks and need not add up: the bar shows at most the whole
  const scale = 100 / Math.max(1000, busy + backPressured);
  return (
    <span className={`tm-live ${classes.load ?? ''}`}>
      <span className={classes.bar} data-running={isRunning || undefined} aria-hidden>
        {isRunning && (
          <>
            <span className={classes.busy} style={{ width: `${busy * scale}%` }} />
            <span className={classes.backPressured} style={{ width: `${backPressured * scale}%` }} />
          </>
        )}
      </span>
      <span className={classes.numbers}>
        <Share name="Busy" kind="busy" value={isRunning ? busy : null} />
        <Share name="Backpressured" kind="backPressured" value={isRunning ? backPressured : null} />
        <Share name="Idle" kind="idle" value={isRunning ? idle : null} />
      </span>
    </span>
  );
}

interface ShareProps {
  readonly name: string;
  readonly kind: 'busy' | 'backPressured' | 'idle';
  readonly value: number | null;
}

function Share({ name, kind, value }: ShareProps) {
  return (
    <span className={classes.share}>
      <span className={`${classes.dot ?? ''} ${classes[kind] ?? ''}`} aria-hidden />
      {name}
      <span className={classes.value}>{value === null ? NOTHING : formatShare(value)}</span>
    </span>
  );
}
