/**
 * The colour of a vertex: from idle blue towards busy red by the busy share, then towards grey by the back-pressured
 * share, as in Flink's job graph. Never the only indication: the numbers are next to it.
 */

import type { Metrics } from './job';

export type Rgb = readonly [number, number, number];

export const IDLE: Rgb = [0x5d, 0xb1, 0xff];
export const BUSY: Rgb = [0xee, 0x64, 0x64];
export const BACK_PRESSURED: Rgb = [0x88, 0x88, 0x88];

export function blend(from: Rgb, to: Rgb, share: number): Rgb {
  const part = Math.min(1, Math.max(0, share));
  const mix = (a: number, b: number) => Math.round(a + (b - a) * part);
  return [mix(from[0], to[0]), mix(from[1], to[1]), mix(from[2], to[2])];
}

export function loadColour(metrics: Pick<Metrics, 'busy' | 'back_pressured'>): string {
  const [r, g, b] = blend(blend(IDLE, BUSY, metrics.busy / 1000), BACK_PRESSURED, metrics.back_pressured / 1000);
  return `rgb(${r} ${g} ${b})`;
}
