/**
 * A job's topology for the layout: nodes and edges without changing numbers. Two documents with the
 * same key have the same picture, so the layout is computed only when the key changes.
 */

import type { OperatorPlan, Plan } from '../gen/contract';
import type { Vertex } from './job';

export interface GraphNode {
  readonly id: string;
}

export interface GraphEdge {
  readonly id: string;
  readonly source: string;
  readonly target: string;
  readonly shipStrategy: string;
  /** Id of the job's edge, by which its figures go; missing where the graph is only planned. */
  readonly edge?: string | undefined;
  /** Where it leaves and enters the nodes, from 0 at the top to 1; missing: in the middle. */
  readonly leaves?: number | undefined;
  readonly enters?: number | undefined;
}

export interface Topology {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
}

export function topologyOfVertices(vertices: readonly Vertex[]): Topology {
  return topology(vertices.map(({ id, inputs }) => ({ id, inputs })));
}

interface Input {
  readonly id: string;
  readonly ship_strategy: string;
  readonly edge?: string;
  readonly side_output?: string;
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
      shipStrategy: withSideOutput(ship_strategy, side_output),
    })),
  };
}

function withSideOutput(strategy: string, tag: string): string {
  return tag === '' ? strategy : `${strategy} · ${tag}`;
}

function topology(vertices: readonly { id: string; inputs: readonly Input[] }[]): Topology {
  const known = new Set(vertices.map((vertex) => vertex.id));
  const edges = vertices.flatMap((vertex) =>
    vertex.inputs
      .filter((input) => known.has(input.id))
      // one vertex may feed another twice: the position keeps the ids apart
      .map((input, position) => ({
        id: `${input.id}>${vertex.id}#${position}`,
        source: input.id,
        target: vertex.id,
        shipStrategy: withSideOutput(input.ship_strategy, input.side_output ?? ''),
        edge: input.edge,
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
