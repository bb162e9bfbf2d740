/** Busy, backpressured and idle time as one bar with its numbers; what does not run has neither. */

import { LOAD_COLOUR, LOAD_NAME, type LoadKind } from '../../model/colour';
import { NOTHING, formatShare } from '../../model/format';
import type { Metrics } from '../../model/job';
import classes from './LoadBar.module.css';
import { LoadMark } from './LoadMark';

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
            <span style={{ width: `${busy * scale}%`, background: LOAD_COLOUR.busy }} />
            <span style={{ width: `${backPressured * scale}%`, background: LOAD_COLOUR.backPressured }} />
          </>
        )}
      </span>
      <span className={classes.numbers}>
        <Share kind="busy" value={isRunning ? busy : null} />
        <Share kind="backPressured" value={isRunning ? backPressured : null} />
        <Share kind="idle" value={isRunning ? idle : null} />
      </span>
    </span>
  );
}

interface ShareProps {
  readonly kind: LoadKind;
  readonly value: number | null;
}

function Share({ kind, value }: ShareProps) {
  return (
    <span className={classes.share}>
      <LoadMark kind={kind} />
      <span className={classes.name}>{LOAD_NAME[kind]}</span>
      <span className={classes.value}>{value === null ? NOTHING : formatShare(value)}</span>
    </span>
  );
}
