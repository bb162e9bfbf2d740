/** Places for nodes that a quick fix has added. */

import type { PipelineDocument } from './document';

/** Gives nodes without a place one: between what is before and what is behind them. */
export function arranged(before: PipelineDocument, after: PipelineDocument): PipelineDocument {
  const positions = { ...after.layout?.positions };
  for (const id of Object.keys(after.nodes)) {
    if (positions[id] !== undefined || before.nodes[id] !== undefined) continue;
    const edges = Object.values(after.edges);
    const ends = edges.flatMap(({ from, to }) => (from[0] === id ? [to[0]] : to[0] === id ? [from[0]] : []));
    const places = ends.flatMap((end) => (positions[end] === undefined ? [] : [positions[end]]));
    const mean = (axis: 0 | 1) => places.reduce((sum, place) => sum + place[axis], 0) / Math.max(1, places.length);
    positions[id] = [Math.round(mean(0)), Math.round(mean(1)) + 90];
  }
  return { ...after, layout: { ...after.layout, positions } };
}
