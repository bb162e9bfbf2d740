/** Draws a chart on a canvas, for a picture of it: title, axis, lines and legend. */

import type { Scale, Series } from '../../model/chart';

interface Drawn {
  readonly title: string;
  readonly times: readonly number[];
  readonly lines: readonly (Series & { readonly colour: string })[];
  readonly scale: Scale;
  readonly format: (value: number) => string;
  /** Times of both edges. */
  readonly edges: readonly [string, string];
  readonly look: { readonly text: string; readonly font: string; readonly ground: string };
}

/** CSS pixels; there are twice as many in the picture. */
const WIDTH = 900;
const PLOT = { left: 90, top: 40, width: WIDTH - 110, height: 220 } as const;
const LINE_PX = 20;
const DENSITY = 2;

export function drawChart({ title, times, lines, scale, format, edges, look }: Drawn): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  const height = PLOT.top + PLOT.height + LINE_PX * (2 + lines.length);
  canvas.width = WIDTH * DENSITY;
  canvas.height = height * DENSITY;
  const context = canvas.getContext('2d');
  if (context === null) return canvas;
  context.scale(DENSITY, DENSITY);
  context.fillStyle = look.ground;
  context.fillRect(0, 0, WIDTH, height);
  const write = (text: string, x: number, y: number, align: CanvasTextAlign = 'left', weight = 400) => {
    context.font = `${weight} 13px ${look.font}`;
    context.textAlign = align;
    context.fillText(text, x, y);
  };
  context.fillStyle = look.text;
  write(title, PLOT.left, 24, 'left', 620);
  const x = (time: number) => PLOT.left + scale.across(time) * PLOT.width;
  const y = (value: number) => PLOT.top + (1 - scale.up(value)) * PLOT.height;
  context.strokeStyle = look.text;
  context.globalAlpha = 0.2;
  for (const tick of scale.ticks)
    stroke(context, [
      [PLOT.left, y(tick)],
      [PLOT.left + PLOT.width, y(tick)],
    ]);
  context.globalAlpha = 1;
  for (const tick of scale.ticks) write(format(tick), PLOT.left - 8, y(tick) + 4, 'right');
  const below = PLOT.top + PLOT.height + LINE_PX;
  write(edges[0], PLOT.left, below);
  write(edges[1], PLOT.left + PLOT.width, below, 'right');
  context.lineWidth = 2;
  for (const [index, { name, values, colour, dash }] of lines.entries()) {
    context.strokeStyle = colour;
    context.setLineDash(dash === undefined ? [] : dash.split(' ').map(Number));
    let run: [number, number][] = [];
    for (const [at, time] of [...times.entries(), [times.length, 0] as const]) {
      const value = values[at] ?? null;
      if (value !== null) run.push([x(time), y(value)]);
      else {
        stroke(context, run);
        run = [];
      }
    }
    const keyY = below + LINE_PX * (index + 1);
    stroke(context, [
      [PLOT.left, keyY - 4],
      [PLOT.left + 24, keyY - 4],
    ]);
    write(name, PLOT.left + 32, keyY);
  }
  return canvas;
}

function stroke(context: CanvasRenderingContext2D, points: readonly (readonly [number, number])[]): void {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
}
