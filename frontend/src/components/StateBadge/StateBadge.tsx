/** A state as icon and text; the colour only repeats them. */

import {
  type Icon,
  IconAlertTriangle,
  IconBan,
  IconCheck,
  IconClock,
  IconPlayerPlayFilled,
  IconRefresh,
} from '@tabler/icons-react';
import type { ReactNode } from 'react';

import { type AnyState, type Tone, toneOf } from '../../model/states';
import classes from './StateBadge.module.css';

const ICONS: Record<Tone, Icon> = {
  running: IconPlayerPlayFilled,
  waiting: IconClock,
  done: IconCheck,
  stopped: IconBan,
  failed: IconAlertTriangle,
  trouble: IconRefresh,
};

interface Props {
  readonly state: AnyState;
  /** In front of the text, for lists of counts. */
  readonly count?: number;
  readonly plain?: boolean;
  /** In place of the state's name. */
  readonly text?: string;
}

export function StateBadge({ state, count, plain = false, text }: Props) {
  return (
    <ToneBadge tone={toneOf(state)} plain={plain}>
      {count !== undefined && <span>{count}</span>}
      <span>{text ?? state}</span>
    </ToneBadge>
  );
}

interface ToneProps {
  readonly tone: Tone;
  readonly plain?: boolean;
  readonly children: ReactNode;
}

/** The same for what is neither a job nor a task. */
export function ToneBadge({ tone, plain = false, children }: ToneProps) {
  const ToneIcon = ICONS[tone];
  return (
    <span className={classes.badge} data-tone={tone} data-plain={plain || undefined}>
      <ToneIcon size={13} stroke={2.2} aria-hidden />
      {children}
    </span>
  );
}
