/** Layered layout of a pipeline with dagre. Imported lazily. */

import { Graph, layout } from '@dagrejs/dagre';

import type { PipelineDocument, Point } from '../../model/pipeline/document';
import { snapped } from '../../model/pipeline/operations';

const WIDTH = 220;

/** Positions of all nodes, from left to right. */
export function layered(document: PipelineDocument, heights: ReadonlyMap<string, number>): Record<string, Point> {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: 'LR', nodesep: 40, ranksep: 90 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of Object.keys(document.nodes)) graph.setNode(id, { width: WIDTH, height: heights.get(id) ?? 62 });
  for (const [id, { from, to }] of Object.entries(document.edges)) graph.setEdge(from[0], to[0], {}, id);
  layout(graph);
  const placed = Object.keys(document.nodes).map((id): [string, Point] => {
    const { x = 0, y = 0, width = 0, height = 0 } = graph.node(id) as Partial<Record<string, number>>;
    return [id, snapped([x - width / 2, y - height / 2])];
  });
  return Object.fromEntries(placed);
}
