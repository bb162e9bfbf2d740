/**
 * Colours of time: busy, backpressured and idle have one each, whatever shows them: nodes, bars, tables and charts. A text or
 * an icon is next to each. A vertex goes from idle blue towards busy red by the busy share, then towards grey by the
 * backpressured share, as in Flink's job graph.
 */

import { t } from '../texts/t';
import type { Metrics } from './job';

export type LoadKind = 'busy' | 'backPressured' | 'idle';

/** Both themes have their own; see global.css. */
export const LOAD_COLOUR: Readonly<Record<LoadKind, string>> = {
  busy: 'var(--tm-busy)',
  backPressured: 'var(--tm-back-pressured)',
  idle: 'var(--tm-idle)',
};

export const LOAD_NAME: Readonly<Record<LoadKind, string>> = {
  busy: t('Busy'),
  backPressured: t('Backpressured'),
  idle: t('Idle'),
};

export function loadColour({ busy, back_pressured: held }: Pick<Metrics, 'busy' | 'back_pressured'>): string {
  return mixed(LOAD_COLOUR.backPressured, held, mixed(LOAD_COLOUR.busy, busy, LOAD_COLOUR.idle));
}

/** So many thousandths of a colour in another one. */
function mixed(colour: string, share: number, other: string): string {
  if (share <= 0) return other;
  return share >= 1000 ? colour : `color-mix(in srgb, ${colour} ${Math.round(share / 10)}%, ${other})`;
}
