/** A small picture of a pipeline: boxes where its nodes are, lines for its edges. Pure. */

import { type PipelineDocument, positionOf } from './document';

export interface Box {
  readonly id: string;
  readonly x: number;
  readonly y: number;
}

export interface Thumbnail {
  readonly boxes: readonly Box[];
  /** Paths of SVG. */
  readonly lines: readonly string[];
}

export const BOX = { width: 22, height: 9 } as const;
/** Of a node on the canvas; the picture keeps the space around boxes in proportion. */
const NODE = { width: 220, height: 62 } as const;

/** Fits the picture into width × height; a pipeline of one node has its box in the middle. */
export function thumbnail(document: PipelineDocument, width: number, height: number): Thumbnail {
  const ids = Object.keys(document.nodes);
  if (ids.length === 0) return { boxes: [], lines: [] };
  const places = ids.map((id) => [id, ...positionOf(document, id)] as const);
  const [left, right] = [Math.min(...places.map(([, x]) => x)), Math.max(...places.map(([, x]) => x))];
  const [top, bottom] = [Math.min(...places.map(([, , y]) => y)), Math.max(...places.map(([, , y]) => y))];
  const scale = Math.min(
    (width - BOX.width) / Math.max(right - left, 1),
    (height - BOX.height) / Math.max(bottom - top, 1),
    BOX.width / (NODE.width / 1.6),
  );
  const dx = (width - (right - left) * scale - BOX.width) / 2;
  const dy = (height - (bottom - top) * scale - BOX.height) / 2;
  const boxes = places.map(([id, x, y]) => ({ id, x: dx + (x - left) * scale, y: dy + (y - top) * scale }));
  const at = new Map(boxes.map((box) => [box.id, box]));
  const lines = Object.values(document.edges).flatMap(({ from, to }) => {
    const [a, b] = [at.get(from[0]), at.get(to[0])];
    if (a === undefined || b === undefined) return [];
    const [x1, y1, x2, y2] = [a.x + BOX.width, a.y + BOX.height / 2, b.x, b.y + BOX.height / 2].map(round);
    const middle = round(((x1 ?? 0) + (x2 ?? 0)) / 2);
    return [`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`];
  });
  return { boxes: boxes.map(({ id, x, y }) => ({ id, x: round(x), y: round(y) })), lines };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
