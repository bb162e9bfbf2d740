/** Layered layout of a pipeline with dagre. Imported lazily. */

import { Graph, layout } from '@dagrejs/dagre';

import type { PipelineDocument, Point } from '../../model/pipeline/document';
import { groupOfBox, hiddenNodes, isSeen, movedAsGroup, seenAs } from '../../model/pipeline/groups';
import { snapped } from '../../model/pipeline/operations';

const WIDTH = 220;

/** Positions of all nodes, from left to right; the nodes of a collapsed group move as its box does. */
export function layered(document: PipelineDocument, heights: ReadonlyMap<string, number>): Record<string, Point> {
  const hidden = hiddenNodes(document);
  const boxes = new Set(Object.keys(document.nodes).map((id) => seenAs(hidden, id)));
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: 'LR', nodesep: 40, ranksep: 90 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of boxes) graph.setNode(id, { width: WIDTH, height: heights.get(id) ?? 62 });
  for (const [id, edge] of Object.entries(document.edges)) {
    if (isSeen(hidden, edge)) graph.setEdge(seenAs(hidden, edge.from[0]), seenAs(hidden, edge.to[0]), {}, id);
  }
  layout(graph);
  const placed = [...boxes].map((id): Readonly<Record<string, Point>> => {
    const { x = 0, y = 0, width = 0, height = 0 } = graph.node(id) as Partial<Record<string, number>>;
    const at = snapped([x - width / 2, y - height / 2]);
    const group = groupOfBox(id);
    return group === null ? { [id]: at } : movedAsGroup(document, group, at);
  });
  return Object.assign({}, ...placed) as Record<string, Point>;
}
