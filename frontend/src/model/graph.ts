/**
 * A job's topology for the layout: nodes and edges without changing numbers. Two documents with the
 * same key have the same picture, so the layout is computed only when the key changes.
 */

import type { LiveJob, OperatorPlan, Plan } from '../gen/contract';
import { type Vertex, metricsOfVertex } from './job';

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

export function topologyOfOperators({ nodes, edges }: OperatorPlan): Topology {
  return {
    nodes: nodes.map(({ id }) => ({ id })),
    edges: edges.map(({ source, target, ship_strategy, side_output }, position) => ({
      id: `${source}>${target}#${position}`,
      source,
      target,
      shipStrategy: side_output === '' ? ship_strategy : `${ship_strategy} · ${side_output}`,
    })),
  };
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
export function edgeRate({ source, target }: GraphEdge, job: LiveJob): number | null {
  const { vertices } = job.static;
  if (vertices[target]?.inputs.length === 1) return metricsOfVertex(job, target)?.records_in_per_second ?? null;
  const readers = Object.values(vertices).flatMap(({ inputs }) => inputs.filter(({ id }) => id === source));
  return readers.length === 1 ? (metricsOfVertex(job, source)?.records_out_per_second ?? null) : null;
}
