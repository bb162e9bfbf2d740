/** Lines over time, with axis, legend, statistics, marks, and a cursor that shows the values. Plain SVG. */

import { type PointerEvent, useId, useState } from 'react';

import { useTimes } from '../../hooks/useTimes';
import { type Mark, niceCeiling, statistics } from '../../model/history';
import classes from './TimeChart.module.css';

export interface Series {
  readonly name: string;
  readonly values: readonly (number | null)[];
}

interface Props {
  readonly title: string;
  readonly times: readonly number[];
  /** Maximum span, ms. */
  readonly windowMs: number;
  readonly series: readonly Series[];
  readonly marks?: readonly Mark[];
  readonly format: (value: number) => string;
  /** A round value at or above one. */
  readonly ceilingOf?: (value: number) => number;
  /** Top of the axis; the largest value if it is not given. */
  readonly top?: number;
}

const WIDTH = 600;
const HEIGHT = 120;
const COLOURS = ['var(--tm-line-1)', 'var(--tm-line-2)', 'var(--tm-line-3)'];
/** Minimum span, so that the first seconds are wider than a pixel. */
const MIN_SPAN_MS = 60_000;
/** With a longer one, times are ambiguous without their dates. */
const DATED_MS = 12 * 3_600_000;
/** The cursor is at a mark if it is this near, as a part of the span. */
const NEAR = 0.01;

export function TimeChart({ title, times, windowMs, series, marks = [], format, ceilingOf = niceCeiling, top }: Props) {
  const [cursor, setCursor] = useState<number | null>(null);
  const clock = useTimes();
  const id = useId();
  const first = times[0] ?? 0;
  // what has ended a job comes after its last sample
  const last = Math.max(times.at(-1) ?? 0, ...(times.length > 0 ? marks.map(({ time }) => time) : []));
  const span = Math.min(windowMs, Math.max(MIN_SPAN_MS, last - first));
  const values = series.flatMap((line) => line.values.filter((value) => value !== null));
  const largest = Math.max(0, ...values);
  // event times may be ahead of the clock
  const smallest = Math.min(0, ...values);
  const bottom = smallest < 0 ? -ceilingOf(-smallest) : 0;
  const ceiling = top ?? (largest > 0 || bottom === 0 ? ceilingOf(largest) : 0);
  const range = ceiling - bottom;
  const x = (time: number) => WIDTH - ((last - time) / span) * WIDTH;
  const y = (value: number) => HEIGHT - ((value - bottom) / range) * HEIGHT;
  const ticks = bottom === 0 ? [ceiling, ceiling / 2, 0] : [...new Set([ceiling, 0, bottom])];

  const move = (event: PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const time = last - (1 - (event.clientX - box.left) / box.width) * span;
    setCursor(nearest(times, time));
  };
  const at = cursor === null ? undefined : times[cursor];
  const shown = marks.filter(({ time }) => time >= last - span && time <= last);
  const marked = at === undefined ? undefined : shown.findLast(({ time }) => Math.abs(time - at) <= NEAR * span);
  const timeOf = (time: number) => (span > DATED_MS ? clock.dateTime(time) : clock.time(time));
  return (
    <figure className={classes.chart} aria-labelledby={id}>
      <figcaption className={classes.head}>
        <span id={id} className={classes.title}>
          {title}
        </span>
        <span className={classes.cursorTime}>
          {at !== undefined && timeOf(at)}
          {marked !== undefined && ` · ${marked.text}`}
        </span>
      </figcaption>
      <div className={classes.plot}>
        <div className={classes.axis} aria-hidden>
          {ticks.map((value) => (
            <span key={value} style={{ top: `${(y(value) / HEIGHT) * 100}%` }}>
              {format(value)}
            </span>
          ))}
        </div>
        <svg
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          className={classes.svg}
          role="img"
          aria-label={`${title}: ${series.map((line) => describe(line, format)).join('; ')}`}
          onPointerMove={move}
          onPointerLeave={() => setCursor(null)}
        >
          {ticks.map((value) => (
            <line key={value} x1={0} x2={WIDTH} y1={y(value)} y2={y(value)} className={classes.grid} />
          ))}
          {shown.map(({ time, text, isFailed }, index) => (
            <line
              key={index}
              x1={x(time)}
              x2={x(time)}
              y1={0}
              y2={HEIGHT}
              className={isFailed ? classes.failure : classes.mark}
            >
              <title>{text}</title>
            </line>
          ))}
          {series.map(({ name, values }, index) => (
            <path
              key={name}
              d={linePath(times, values, x, y)}
              className={classes.line}
              style={{ stroke: COLOURS[index % COLOURS.length] }}
            />
          ))}
          {at !== undefined && <line x1={x(at)} x2={x(at)} y1={0} y2={HEIGHT} className={classes.cursor} />}
        </svg>
      </div>
      <div className={classes.span}>
        <span>{timeOf(last - span)}</span>
        <span>{timeOf(last)}</span>
      </div>
      <ul className={classes.legend}>
        {series.map(({ name, values }, index) => (
          <Key
            key={name}
            name={name}
            colour={COLOURS[index % COLOURS.length] ?? ''}
            values={values}
            value={cursor === null ? values.at(-1) : values[cursor]}
            format={format}
          />
        ))}
      </ul>
    </figure>
  );
}

interface KeyProps {
  readonly name: string;
  readonly colour: string;
  readonly values: readonly (number | null)[];
  readonly value: number | null | undefined;
  readonly format: (value: number) => string;
}

function Key({ name, colour, values, value, format }: KeyProps) {
  const known = statistics(values);
  return (
    <li className={classes.key}>
      <span className={classes.swatch} style={{ background: colour }} aria-hidden />
      <span className={classes.name}>{name}</span>
      <strong className={classes.value}>{value === null || value === undefined ? '–' : format(value)}</strong>
      {known !== null && (
        <span className={classes.statistics}>
          min {format(known.min)} · avg {format(known.average)} · max {format(known.max)}
        </span>
      )}
    </li>
  );
}

function describe({ name, values }: Series, format: (value: number) => string): string {
  const known = statistics(values);
  return known === null ? `${name} has no value` : `${name} between ${format(known.min)} and ${format(known.max)}`;
}

function linePath(
  times: readonly number[],
  values: readonly (number | null)[],
  x: (time: number) => number,
  y: (value: number) => number,
): string {
  let path = '';
  let isDrawing = false;
  for (const [index, time] of times.entries()) {
    const value = values[index] ?? null;
    // a line of no length is a dot: nothing else would be seen of a sample between two gaps
    if (value !== null)
      path += `${isDrawing ? 'L' : 'M'}${x(time).toFixed(1)} ${y(value).toFixed(1)}${isDrawing ? '' : 'h0'}`;
    isDrawing = value !== null;
  }
  return path;
}

function nearest(times: readonly number[], time: number): number | null {
  let best: number | null = null;
  for (const [index, each] of times.entries()) {
    if (best === null || Math.abs(each - time) < Math.abs((times[best] ?? 0) - time)) best = index;
  }
  return best;
}
