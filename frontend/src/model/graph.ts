/**
 * A job's topology for the layout: nodes and edges without changing numbers. Two documents with the
 * same key have the same picture, so the layout is computed only when the key changes.
 */

import type { Plan, Vertex } from '../gen/live';

export interface GraphNode {
  readonly id: string;
}

export interface GraphEdge {
  readonly id: string;
  readonly source: string;
  readonly target: string;
  readonly shipStrategy: string;
}

export interface Topology {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
}

export function topologyOfVertices(vertices: readonly Vertex[]): Topology {
  return topology(vertices.map(({ id, inputs }) => ({ id, inputs })));
}

export function topologyOfPlan(plan: Plan): Topology {
  return topology(plan.nodes.map(({ id, inputs }) => ({ id, inputs: inputs ?? [] })));
}

function topology(
  vertices: readonly { id: string; inputs: readonly { id: string; ship_strategy: string }[] }[],
): Topology {
  const known = new Set(vertices.map((vertex) => vertex.id));
  const edges = vertices.flatMap((vertex) =>
    vertex.inputs
      .filter((input) => known.has(input.id))
      // one vertex may feed another twice: the position keeps the ids apart
      .map((input, position) => ({
        id: `${input.id}>${vertex.id}#${position}`,
        source: input.id,
        target: vertex.id,
        shipStrategy: input.ship_strategy,
      })),
  );
  return { nodes: vertices.map(({ id }) => ({ id })), edges };
}

/** Equal for equal topologies, whatever the numbers. */
export function topologyKey({ nodes, edges }: Topology): string {
  return JSON.stringify([
    nodes.map((node) => node.id),
    edges.map((edge) => [edge.source, edge.target, edge.shipStrategy]),
  ]);
}

/**
 * Records per second along one edge, or null where the counters cannot tell: a vertex counts what it reads from all its
 * inputs together and what it writes to all its outputs together.
 */
export function edgeRate(
  edge: GraphEdge,
  vertices: ReadonlyMap<string, Vertex>,
  edges: readonly GraphEdge[],
): number | null {
  const target = vertices.get(edge.target);
  if (target?.inputs.length === 1) return target.metrics.records_in_per_second;
  if (edges.filter((other) => other.source === edge.source).length === 1) {
    return vertices.get(edge.source)?.metrics.records_out_per_second ?? null;
  }
  return null;
}

export interface LayoutInput {
  readonly id: 'root';
  readonly layoutOptions: Record<string, string>;
  readonly children: { id: string; width: number; height: number }[];
  readonly edges: { id: string; sources: string[]; targets: string[] }[];
}

/** The graph in ELK's format: layered, left to right, all nodes of one size. */
export function layoutInput(graph: Topology, width: number, height: number, edgeGap: number): LayoutInput {
  return {
    id: 'root',
    layoutOptions: {
      'elk.algorithm': 'layered',
      'elk.direction': 'RIGHT',
      'elk.layered.spacing.nodeNodeBetweenLayers': String(edgeGap),
      'elk.spacing.nodeNode': '36',
      'elk.layered.nodePlacement.strategy': 'NETWORK_SIMPLEX',
      'elk.layered.considerModelOrder.strategy': 'NODES_AND_EDGES',
      // sources stand in the first column
      'elk.layered.layering.strategy': 'LONGEST_PATH_SOURCE',
      'elk.separateConnectedComponents': 'true',
      'elk.spacing.componentComponent': '48',
    },
    children: graph.nodes.map(({ id }) => ({ id, width, height })),
    edges: graph.edges.map(({ id, source, target }) => ({ id, sources: [source], targets: [target] })),
  };
}
