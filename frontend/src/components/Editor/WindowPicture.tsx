/** Draws what a window takes: bars over a line of time. */

import type { Json } from '../../model/pipeline/document';
import { millis } from '../../model/pipeline/forms';
import { t } from '../../texts/t';

const WIDTH = 300;
const BARS = 4;

export function WindowPicture({ window: given }: { readonly window: Readonly<Record<string, Json>> }) {
  const bars = barsOf(given);
  if (bars.length === 0) return null;
  const end = Math.max(...bars.map(([, to]) => to));
  const x = (time: number) => 6 + (time / end) * (WIDTH - 12);
  return (
    <svg
      viewBox={`0 0 ${WIDTH} ${bars.length * 11 + 14}`}
      width="100%"
      role="img"
      aria-label={t('The windows over time')}
    >
      {bars.map(([from, to], index) => (
        <rect
          key={index}
          x={x(from) + 1}
          y={4 + index * 11}
          width={Math.max(2, x(to) - x(from) - 2)}
          height={7}
          rx={3}
          fill="var(--tm-accent)"
          opacity={0.35 + 0.5 / (index + 1)}
        />
      ))}
      <line
        x1={6}
        x2={WIDTH - 6}
        y1={bars.length * 11 + 7}
        y2={bars.length * 11 + 7}
        stroke="var(--tm-border-strong)"
        strokeWidth={1.5}
      />
    </svg>
  );
}

/** The first windows: begin and end of each, in units of time. */
function barsOf(given: Readonly<Record<string, Json>>): readonly (readonly [number, number])[] {
  const time = (name: string) => millis(given[name]);
  const numbers = Array.from({ length: BARS }, (_, index) => index);
  if (given.kind === 'tumbling') {
    const size = time('size');
    return size === null ? [] : numbers.map((index) => [index * size, (index + 1) * size] as const);
  }
  if (given.kind === 'sliding') {
    const size = time('size');
    const slide = time('slide');
    return size === null || slide === null
      ? []
      : numbers.map((index) => [index * slide, index * slide + size] as const);
  }
  if (given.kind === 'cumulative') {
    const max = time('max');
    const step = time('step');
    if (max === null || step === null) return [];
    return numbers
      .filter((index) => index * step < max)
      .map((index) => [0, Math.min(max, (index + 1) * step)] as const);
  }
  const gap = given.kind === 'session' ? time('gap') : null;
  return gap === null
    ? []
    : [
        [0, gap * 2],
        [gap * 3, gap * 4.5],
        [gap * 5.5, gap * 7],
      ];
}
