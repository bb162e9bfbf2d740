/** A state as icon and text; the colour adds no information. */

import {
  type Icon,
  IconAlertTriangle,
  IconBan,
  IconCheck,
  IconClock,
  IconPlayerPlayFilled,
  IconRefresh,
} from '@tabler/icons-react';
import { type ReactNode, memo } from 'react';

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

/** States that are final. */
const ENDED: ReadonlySet<Tone> = new Set(['done', 'stopped', 'failed']);

interface Props {
  readonly state: AnyState;
  /** In front of the text, for lists of counts. */
  readonly count?: number;
  readonly plain?: boolean;
  /** In place of the state's name. */
  readonly text?: string;
}

export const StateBadge = memo(function StateBadge({ state, count, plain = false, text }: Props) {
  return (
    <ToneBadge tone={toneOf(state)} plain={plain} isPassing={!ENDED.has(toneOf(state))}>
      {count !== undefined && <span>{count}</span>}
      <span>{text ?? state}</span>
    </ToneBadge>
  );
});

interface ToneProps {
  readonly tone: Tone;
  readonly plain?: boolean;
  /** The state may change: it is greyed while the data is stale. */
  readonly isPassing?: boolean;
  readonly children: ReactNode;
}

/** A badge for things that are neither job nor task. */
export function ToneBadge({ tone, plain = false, isPassing = false, children }: ToneProps) {
  const ToneIcon = ICONS[tone];
  return (
    <span
      className={`${isPassing ? 'tm-live ' : ''}${classes.badge ?? ''}`}
      data-tone={tone}
      data-plain={plain || undefined}
    >
      <ToneIcon size={13} stroke={2.2} aria-hidden />
      {children}
    </span>
  );
}
