/**
 * Positions of a graph's nodes and the ways of its edges: layered, left to right, all nodes of one size, sources in the
 * first column. Edges over several columns get a lane between the nodes of each column that they pass.
 */

import { Graph, layout as layOut } from '@dagrejs/dagre';

import { type Topology, topologyKey } from './graph';

export interface Position {
  readonly x: number;
  readonly y: number;
}

export interface Layout {
  readonly key: string;
  /** Of the upper left corners. */
  readonly positions: ReadonlyMap<string, Position>;
  /** By edge id: where it passes the middle of a column, from left to right; missing if it passes none. */
  readonly lanes: ReadonlyMap<string, readonly Position[]>;
}

export interface NodeSize {
  readonly width: number;
  readonly height: number;
  /** Between two columns. */
  readonly edgeGap: number;
}

const NODE_GAP = 36;
/** Between a lane and what is above and below it: room for the edge's label. */
const LANE_GAP = 34;

export function layoutOf(topology: Topology, { width, height, edgeGap }: NodeSize): Layout {
  const graph = new Graph({ multigraph: true });
  // dagre aligns sinks: it gets the graph reversed, and draws it from right to left
  graph.setGraph({ rankdir: 'RL', ranker: 'longest-path', nodesep: NODE_GAP, edgesep: LANE_GAP, ranksep: edgeGap });
  for (const { id } of topology.nodes) graph.setNode(id, { width, height });
  for (const { id, source, target } of topology.edges) graph.setEdge(target, source, {}, id);
  layOut(graph);
  const drawn = new Map(topology.nodes.map(({ id }) => [id, centreOf(graph.node(id) as Partial<Position>)]));
  // upside down is as good a picture: the one in which what the program names first is above
  const up = isUpsideDown([...drawn.values()]) ? -1 : 1;
  const centres = new Map([...drawn].map(([id, { x, y }]) => [id, { x, y: up * y }]));
  const top = Math.min(...[...centres.values()].map(({ y }) => y)) - height / 2;
  const columns = new Set([...centres.values()].map(({ x }) => Math.round(x)));
  const lanes = new Map<string, readonly Position[]>();
  for (const { id, source, target } of topology.edges) {
    const { points = [] } = graph.edge(target, source, id) as { readonly points?: readonly Position[] };
    // the first and the last lie on the nodes' borders
    const passed = points.slice(1, -1).filter(({ x }) => columns.has(Math.round(x)));
    if (passed.length > 0) lanes.set(id, passed.map(({ x, y }) => ({ x, y: up * y - top })).toReversed());
  }
  const positions = new Map([...centres].map(([id, { x, y }]) => [id, { x: x - width / 2, y: y - height / 2 - top }]));
  return { key: topologyKey(topology), positions, lanes };
}

/** Whether, of two nodes of a column, the later is more often above. */
function isUpsideDown(centres: readonly Position[]): boolean {
  let later = 0;
  centres.forEach((one, index) => {
    for (const other of centres.slice(index + 1)) if (other.x === one.x) later += Math.sign(other.y - one.y);
  });
  return later < 0;
}

function centreOf({ x = 0, y = 0 }: Partial<Position>): Position {
  return { x, y };
}

/** An SVG path from the right of one node to the left of another, straight through its lanes, and its label's place. */
export function edgePath(
  from: Position,
  to: Position,
  lanes: readonly Position[],
  nodeWidth: number,
): { readonly path: string; readonly label: Position } {
  const stops = [
    from,
    ...lanes.flatMap(({ x, y }) => [
      { x: x - nodeWidth / 2, y },
      { x: x + nodeWidth / 2, y },
    ]),
    to,
  ];
  const parts = stops.slice(1).map((stop, index) => {
    const { x, y } = stops[index] ?? from;
    if (index % 2 === 1) return `L${stop.x},${stop.y}`;
    const middle = (x + stop.x) / 2;
    return `C${middle},${y} ${middle},${stop.y} ${stop.x},${stop.y}`;
  });
  const label = lanes[Math.floor(lanes.length / 2)] ?? { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  return { path: `M${from.x},${from.y} ${parts.join(' ')}`, label };
}
