/**
 * Groups of nodes on the canvas. A collapsed group is one box: its nodes are hidden, edges to them end at the box, and it
 * has a port for each port of them that leads outside or could. Ids of boxes and ports of a box are such that the node
 * and the port behind them can be told.
 */

import type { Port } from './catalog';
import { type EdgeEnd, type Group, type PipelineDocument, type Point, nameOf, positionOf } from './document';
import { type PortsLookup, changeGroup, moveNodes } from './operations';

/** Ids of nodes have no colon. */
const BOX = 'group:';

/** The id of a group's box, or of the frame around its nodes. */
export function boxOf(group: string): string {
  return BOX + group;
}

/** The group whose box this is; null: it is no box. */
export function groupOfBox(box: string): string | null {
  return box.startsWith(BOX) ? box.slice(BOX.length) : null;
}

/** Hidden nodes, each with its collapsed group. */
export type Hidden = ReadonlyMap<string, string>;

export function hiddenNodes(document: PipelineDocument): Hidden {
  const groups = Object.entries(document.layout?.groups ?? {});
  return new Map(groups.flatMap(([id, { nodes, collapsed }]) => (collapsed ? nodes.map((node) => [node, id]) : [])));
}

/** The group that a node is in. */
export function groupOf(document: PipelineDocument, node: string): readonly [string, Group] | null {
  return Object.entries(document.layout?.groups ?? {}).find(([, { nodes }]) => nodes.includes(node)) ?? null;
}

/** The id of what is seen of a node: itself, or the box of its collapsed group. */
export function seenAs(hidden: Hidden, node: string): string {
  const group = hidden.get(node);
  return group === undefined ? node : boxOf(group);
}

/** Where an end of an edge is seen. */
export function seenEnd(hidden: Hidden, [node, port]: EdgeEnd): EdgeEnd {
  return hidden.has(node) ? [seenAs(hidden, node), `${node}:${port}`] : [node, port];
}

/** The node and port behind an end that is seen. */
export function realEnd([box, port]: EdgeEnd): EdgeEnd {
  if (groupOfBox(box) === null) return [box, port];
  const at = port.indexOf(':');
  return [port.slice(0, at), port.slice(at + 1)];
}

/** Whether an edge is seen: not if both of its ends are in one collapsed group. */
export function isSeen(hidden: Hidden, { from, to }: { readonly from: EdgeEnd; readonly to: EdgeEnd }): boolean {
  const group = hidden.get(from[0]);
  return group === undefined || group !== hidden.get(to[0]);
}

/** Where the box of a group stands: at the upper left corner of its nodes, so that it keeps its place. */
export function placeOfGroup(document: PipelineDocument, group: string): Point {
  const places = (document.layout?.groups?.[group]?.nodes ?? []).map((id) => positionOf(document, id));
  if (places.length === 0) return [0, 0];
  return [Math.min(...places.map(([x]) => x)), Math.min(...places.map(([, y]) => y))];
}

/** Where what is seen of a node stands. */
export function placeSeen(document: PipelineDocument, hidden: Hidden, node: string): Point {
  const group = hidden.get(node);
  return group === undefined ? positionOf(document, node) : placeOfGroup(document, group);
}

/** Positions of a group's nodes once its box stands elsewhere. */
export function movedAsGroup(document: PipelineDocument, group: string, to: Point): Readonly<Record<string, Point>> {
  const [left, top] = placeOfGroup(document, group);
  const nodes = document.layout?.groups?.[group]?.nodes ?? [];
  return Object.fromEntries(
    nodes.map((id): [string, Point] => {
      const [x, y] = positionOf(document, id);
      return [id, [x + to[0] - left, y + to[1] - top]];
    }),
  );
}

/** Moves nodes, and groups by their boxes. */
export function moveSeen(document: PipelineDocument, to: ReadonlyMap<string, Point>): PipelineDocument {
  const moved = [...to].map(([id, at]) => {
    const group = groupOfBox(id);
    return group === null ? { [id]: at } : movedAsGroup(document, group, at);
  });
  return moveNodes(document, Object.assign({}, ...moved) as Record<string, Point>);
}

export interface BoundaryPort {
  /** Of the port of the box. */
  readonly id: string;
  readonly node: string;
  readonly port: Port;
  /** The node's name, and that of the port where it has several. */
  readonly label: string;
}

export interface Boundary {
  readonly inputs: readonly BoundaryPort[];
  readonly outputs: readonly BoundaryPort[];
}

/** The ports of a group's nodes that are connected to others, or to nothing yet. */
export function boundary(document: PipelineDocument, group: string, ports: PortsLookup): Boundary {
  const nodes = document.layout?.groups?.[group]?.nodes ?? [];
  const members = new Set(nodes);
  const edges = Object.values(document.edges);
  const leadsOut = (near: 'from' | 'to', node: string, port: string) => {
    const far = near === 'from' ? 'to' : 'from';
    const at = edges.filter((edge) => edge[near][0] === node && edge[near][1] === port);
    return at.length === 0 || at.some((edge) => !members.has(edge[far][0]));
  };
  const found = (kind: 'inputs' | 'outputs', near: 'from' | 'to') =>
    nodes.flatMap((node) => {
      const all = ports(node)[kind];
      const name = nameOf(document, node);
      return all
        .filter((port) => leadsOut(near, node, port.name))
        .map((port): BoundaryPort => {
          const label = port.label === '' ? port.name : port.label;
          return { id: `${node}:${port.name}`, node, port, label: all.length > 1 ? `${name} · ${label}` : name };
        });
    });
  return { inputs: found('inputs', 'to'), outputs: found('outputs', 'from') };
}

/** Collapses groups, or expands them if all of them are collapsed. */
export function toggleCollapsed(document: PipelineDocument, groups: readonly string[]): PipelineDocument {
  const known = groups.filter((id) => document.layout?.groups?.[id] !== undefined);
  const collapsed = known.some((id) => document.layout?.groups?.[id]?.collapsed !== true);
  return known.reduce((changed, id) => changeGroup(changed, id, { collapsed }), document);
}

export type Direction = 'left' | 'right' | 'up' | 'down';

/**
 * Where an arrow key leads from a node, as it is seen: along edges to the left and right, to the next box above or below.
 * Returns the nodes there: one, or all of a collapsed group.
 */
export function neighbour(
  document: PipelineDocument,
  hidden: Hidden,
  id: string,
  direction: Direction,
): readonly string[] | null {
  const own = seenAs(hidden, id);
  const [x, y] = placeSeen(document, hidden, id);
  const edges = Object.values(document.edges).filter((edge) => isSeen(hidden, edge));
  const far = (other: string) => {
    const [otherX, otherY] = placeSeen(document, hidden, other);
    return Math.abs(otherX - x) + Math.abs(otherY - y);
  };
  const candidates =
    direction === 'right'
      ? edges.filter(({ from }) => seenAs(hidden, from[0]) === own).map(({ to }) => to[0])
      : direction === 'left'
        ? edges.filter(({ to }) => seenAs(hidden, to[0]) === own).map(({ from }) => from[0])
        : Object.keys(document.nodes).filter((other) => {
            const otherY = placeSeen(document, hidden, other)[1];
            return seenAs(hidden, other) !== own && (direction === 'down' ? otherY > y : otherY < y);
          });
  const [next] = candidates.sort((one, other) => far(one) - far(other) || (one < other ? -1 : 1));
  if (next === undefined) return null;
  const group = hidden.get(next);
  return group === undefined ? [next] : (document.layout?.groups?.[group]?.nodes ?? [next]);
}
