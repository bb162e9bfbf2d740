/**
 * Lines over time, with axis, legend, statistics, marks, and a cursor that shows the values: of all charts within one
 * `SharedCursor` at the same time. Saved as a picture or as CSV. Plain SVG.
 */

import { ActionIcon } from '@mantine/core';
import { IconFileSpreadsheet, IconPhoto } from '@tabler/icons-react';
import { type PointerEvent, type ReactNode, createContext, use, useId, useMemo, useRef, useState } from 'react';

import { useTimes } from '../../hooks/useTimes';
import { type Scale, type Series, csvOf, nearest, scaleOf } from '../../model/chart';
import { type Mark, statistics } from '../../model/history';
import { t } from '../../texts/t';
import { saveBlob, saveFile } from '../Pipelines/saveFile';
import classes from './TimeChart.module.css';
import { drawChart } from './drawChart';

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
/** With a longer one, times are ambiguous without their dates. */
const DATED_MS = 12 * 3_600_000;
/** The cursor is at a mark if it is this near, as a part of the span. */
const NEAR = 0.01;

type Cursor = readonly [number | null, (time: number | null) => void];

/** Epoch ms. */
const CursorContext = createContext<Cursor | null>(null);

/** The charts in it show the values of the same time. */
export function SharedCursor({ children }: { readonly children: ReactNode }) {
  const [time, setTime] = useState<number | null>(null);
  return <CursorContext value={useMemo(() => [time, setTime], [time])}>{children}</CursorContext>;
}

export function TimeChart({ title, times, windowMs, series, marks = [], format, ceilingOf, top }: Props) {
  const own = useState<number | null>(null);
  const [cursorTime, setCursorTime] = use(CursorContext) ?? own;
  const clock = useTimes();
  const id = useId();
  const plot = useRef<SVGSVGElement>(null);
  const scale = scaleOf({ times, marked: marks.map(({ time }) => time), windowMs, series, ceilingOf, top });
  const { last, span, ticks } = scale;
  const x = (time: number) => scale.across(time) * WIDTH;
  const y = (value: number) => (1 - scale.up(value)) * HEIGHT;
  const lines = series.map((line, index) => ({
    ...line,
    colour: line.colour ?? COLOURS[index % COLOURS.length] ?? '',
  }));

  const move = (event: PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const time = last - (1 - (event.clientX - box.left) / box.width) * span;
    setCursorTime(time);
  };
  const cursor = cursorTime === null ? null : nearest(times, cursorTime);
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
        <Save
          title={title}
          onPicture={() =>
            plot.current !== null && savePicture(plot.current, { title, times, lines, scale, format, timeOf })
          }
          onCsv={() => saveFile(`${fileStem(title)}.csv`, `\ufeff${csvOf(times, series)}`)}
        />
      </figcaption>
      <div className={classes.plot}>
        <div className={classes.axis} aria-hidden>
          {ticks.map((value) => (
            <span key={value} style={{ top: `${(1 - scale.up(value)) * 100}%` }}>
              {format(value)}
            </span>
          ))}
        </div>
        <svg
          ref={plot}
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          className={classes.svg}
          role="img"
          aria-label={`${title}: ${series.map((line) => describe(line, format)).join('; ')}`}
          onPointerMove={move}
          onPointerLeave={() => setCursorTime(null)}
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
          {lines.map(({ name, values, colour, dash }) => (
            <path
              key={name}
              d={linePath(times, values, x, y)}
              className={classes.line}
              style={{ stroke: colour }}
              strokeDasharray={dash}
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
        {lines.map(({ name, values, colour, dash }) => (
          <Key
            key={name}
            name={name}
            colour={colour}
            dash={dash}
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
  readonly dash: string | undefined;
  readonly values: readonly (number | null)[];
  readonly value: number | null | undefined;
  readonly format: (value: number) => string;
}

function Key({ name, colour, dash, values, value, format }: KeyProps) {
  const known = statistics(values);
  return (
    <li className={classes.key}>
      <svg className={classes.swatch} viewBox="0 0 18 3" aria-hidden>
        <line x1={0} x2={18} y1={1.5} y2={1.5} stroke={colour} strokeWidth={3} strokeDasharray={dash} />
      </svg>
      <span className={classes.name}>{name}</span>
      <strong className={classes.value}>{value === null || value === undefined ? '–' : format(value)}</strong>
      {known !== null && (
        <span className={classes.statistics}>
          {t('min {min} · avg {average} · max {max}', {
            min: format(known.min),
            average: format(known.average),
            max: format(known.max),
          })}
        </span>
      )}
    </li>
  );
}

function describe({ name, values }: Series, format: (value: number) => string): string {
  const known = statistics(values);
  return known === null
    ? t('{name} has no value', { name })
    : t('{name} between {min} and {max}', { name, min: format(known.min), max: format(known.max) });
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

interface SaveProps {
  readonly title: string;
  readonly onPicture: () => void;
  readonly onCsv: () => void;
}

function Save({ title, onPicture, onCsv }: SaveProps) {
  const look = { variant: 'subtle', color: 'gray', size: 'sm' } as const;
  return (
    <span className={classes.save}>
      <ActionIcon
        {...look}
        aria-label={t('Save {title} as PNG', { title })}
        title={t('Save as PNG')}
        onClick={onPicture}
      >
        <IconPhoto size={15} aria-hidden />
      </ActionIcon>
      <ActionIcon {...look} aria-label={t('Save {title} as CSV', { title })} title={t('Save as CSV')} onClick={onCsv}>
        <IconFileSpreadsheet size={15} aria-hidden />
      </ActionIcon>
    </span>
  );
}

interface Picture {
  readonly title: string;
  readonly times: readonly number[];
  readonly lines: readonly (Series & { readonly colour: string })[];
  readonly scale: Scale;
  readonly format: (value: number) => string;
  readonly timeOf: (time: number) => string;
}

function savePicture(plot: SVGSVGElement, { title, times, lines, scale, format, timeOf }: Picture): void {
  // colours as the theme has them now
  const paths = [...plot.querySelectorAll('path')].map((path) => getComputedStyle(path).stroke);
  const { color: text, fontFamily: font } = getComputedStyle(plot);
  const ground = getComputedStyle(document.body).backgroundColor;
  const canvas = drawChart({
    title,
    times,
    lines: lines.map((line, index) => ({ ...line, colour: paths[index] ?? text })),
    scale,
    format,
    edges: [timeOf(scale.last - scale.span), timeOf(scale.last)],
    look: { text, font, ground },
  });
  canvas.toBlob((blob) => blob !== null && saveBlob(`${fileStem(title)}.png`, blob), 'image/png');
}

function fileStem(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '');
}
