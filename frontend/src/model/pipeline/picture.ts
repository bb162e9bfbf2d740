/** The picture of a pipeline whose nodes show figures: as it was drawn, and larger. Pure. */

import type { JobPipeline } from '../../gen/contract';
import type { Topology } from '../graph';
import type { Position } from '../layout';
import type { PipelineDocument, Point } from './document';

/** How much larger the picture is than the drawing: nodes with figures need more room than those of the editor. */
const SCALE: Point = [1.6, 2.4];

/** Nodes and edges of the document; edges are labelled by their output where a node has several. */
export function topologyOfPipeline(document: PipelineDocument, outputs: JobPipeline['outputs']): Topology {
  const all = Object.entries(document.edges);
  const height = (id: string) => document.layout?.positions?.[id]?.[1] ?? 0;
  /** Where each port of a node is, from 0 to 1, in the order of what is at the other ends. */
  const places = (own: 'from' | 'to', other: 'from' | 'to') => {
    const found = new Map<string, number>();
    const ends = all.map(([, edge]) => ({ at: edge[own], across: height(edge[other][0]) }));
    for (const id of Object.keys(document.nodes)) {
      const sorted = ends.filter(({ at }) => at[0] === id).toSorted((a, b) => a.across - b.across);
      const ports = [...new Set(sorted.map(({ at }) => at[1]))];
      ports.forEach((port, index) => found.set(JSON.stringify([id, port]), (index + 0.5) / ports.length));
    }
    return found;
  };
  const [leaves, enters] = [places('from', 'to'), places('to', 'from')];
  return {
    nodes: Object.keys(document.nodes).map((id) => ({ id })),
    edges: all.map(([id, { from, to, partitioning }]) => ({
      id,
      source: from[0],
      target: to[0],
      shipStrategy: [Object.keys(outputs[from[0]] ?? {}).length > 1 ? from[1] : '', partitioning ?? '']
        .filter((part) => part !== '')
        .join(' · '),
      leaves: leaves.get(JSON.stringify(from)),
      enters: enters.get(JSON.stringify(to)),
    })),
  };
}

/** Upper left corners as they are drawn, in the scale of the picture; null: not all nodes have a place. */
export function placesOfNodes(document: PipelineDocument): ReadonlyMap<string, Position> | null {
  const places = Object.keys(document.nodes).map((id) => [id, document.layout?.positions?.[id]] as const);
  const known = places.flatMap(([id, at]) => (at === undefined ? [] : [[id, at] as const]));
  if (known.length < places.length || known.length === 0) return null;
  const [left, top] = [Math.min(...known.map(([, [x]]) => x)), Math.min(...known.map(([, [, y]]) => y))];
  return new Map(known.map(([id, [x, y]]) => [id, { x: (x - left) * SCALE[0], y: (y - top) * SCALE[1] }]));
}
