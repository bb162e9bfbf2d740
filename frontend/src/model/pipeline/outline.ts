/** The pipeline as a list from the sources down: what the outline shows, and how the keyboard walks the canvas. */

import type { PipelineDocument } from './document';
import { nameOf, positionOf } from './document';
import { ranks, topologicalOrder } from './order';

export interface OutlineItem {
  readonly id: string;
  /** Distance from the sources, from 1 on. */
  readonly level: number;
  /** Names of the nodes at the inputs and behind the outputs. */
  readonly from: readonly string[];
  readonly to: readonly string[];
}

export function outline(document: PipelineDocument): readonly OutlineItem[] {
  const ranked = ranks(document);
  const from = new Map<string, string[]>();
  const to = new Map<string, string[]>();
  for (const edge of Object.values(document.edges)) {
    append(to, edge.from[0], nameOf(document, edge.to[0]));
    append(from, edge.to[0], nameOf(document, edge.from[0]));
  }
  return topologicalOrder(document).map((id) => ({
    id,
    level: (ranked.get(id) ?? 0) + 1,
    from: from.get(id) ?? [],
    to: to.get(id) ?? [],
  }));
}

function append(map: Map<string, string[]>, key: string, value: string): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, [value]);
  else known.push(value);
}

export type Direction = 'left' | 'right' | 'up' | 'down';

/** Where an arrow key leads from a node: along edges to the left and right, to the next box above or below. */
export function neighbour(document: PipelineDocument, id: string, direction: Direction): string | null {
  const [x, y] = positionOf(document, id);
  const edges = Object.values(document.edges);
  const far = (other: string) => {
    const [otherX, otherY] = positionOf(document, other);
    return Math.abs(otherX - x) + Math.abs(otherY - y);
  };
  const candidates =
    direction === 'right'
      ? edges.filter(({ from }) => from[0] === id).map(({ to }) => to[0])
      : direction === 'left'
        ? edges.filter(({ to }) => to[0] === id).map(({ from }) => from[0])
        : Object.keys(document.nodes).filter((other) => {
            const otherY = positionOf(document, other)[1];
            return other !== id && (direction === 'down' ? otherY > y : otherY < y);
          });
  return candidates.sort((one, other) => far(one) - far(other) || (one < other ? -1 : 1))[0] ?? null;
}
