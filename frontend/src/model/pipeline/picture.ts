/** The picture of a pipeline whose nodes show figures: as it was drawn, and larger. Pure. */

import type { JobPipeline } from '../../gen/contract';
import type { Topology } from '../graph';
import type { NodeSize, Position } from '../layout';
import type { PipelineDocument, Point } from './document';

/** How much larger the picture is than the drawing: nodes with figures need more room than those of the editor. */
const SCALE: Point = [1.6, 2.4];
/** Of a group's frame around its nodes, and above them for its name, in px. */
const FRAME_MARGIN = 22;
const FRAME_HEAD = 10;

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

/** A group's frame or a note, behind the nodes. */
export interface Backdrop extends Position {
  readonly id: string;
  readonly kind: 'group' | 'note';
  readonly text: string;
  /** Of a note. */
  readonly colour?: string;
  readonly width: number;
  readonly height: number;
}

export interface Places {
  /** Upper left corners of the nodes, by id. */
  readonly positions: ReadonlyMap<string, Position>;
  readonly backdrops: readonly Backdrop[];
}

/** Where nodes, groups and notes are drawn, in the scale of the picture, from 0 on; null: not all nodes have a place. */
export function placesOfPipeline(document: PipelineDocument, size: Omit<NodeSize, 'edgeGap'>): Places | null {
  const { positions = {}, groups = {}, notes = {} } = document.layout ?? {};
  const at = new Map<string, Position>();
  for (const id of Object.keys(document.nodes)) {
    const place = positions[id];
    if (place === undefined) return null;
    at.set(id, scaled(place));
  }
  if (at.size === 0) return null;
  const frames = Object.entries(groups).flatMap(([id, { name, nodes }]): Backdrop[] => {
    const members = nodes.flatMap((node) => at.get(node) ?? []);
    if (members.length === 0) return [];
    const [left, top] = [least(members, 'x') - FRAME_MARGIN, least(members, 'y') - FRAME_MARGIN - FRAME_HEAD];
    const right = most(members, 'x') + size.width + FRAME_MARGIN;
    const bottom = most(members, 'y') + size.height + FRAME_MARGIN;
    return [{ id, kind: 'group', text: name, x: left, y: top, width: right - left, height: bottom - top }];
  });
  const texts = Object.entries(notes).map(
    ([
      id,
      {
        text,
        at: place,
        size: [width, height],
        colour,
      },
    ]): Backdrop => {
      const extent = { width: width * SCALE[0], height: height * SCALE[1] };
      return { id, kind: 'note', text: text.join('\n'), colour, ...scaled(place), ...extent };
    },
  );
  const backdrops = [...frames, ...texts];
  const all = [...at.values(), ...backdrops];
  const [left, top] = [least(all, 'x'), least(all, 'y')];
  const moved = <T extends Position>(each: T): T => ({ ...each, x: each.x - left, y: each.y - top });
  return {
    positions: new Map([...at].map(([id, place]) => [id, moved(place)])),
    backdrops: backdrops.map(moved),
  };
}

function scaled([x, y]: Point): Position {
  return { x: x * SCALE[0], y: y * SCALE[1] };
}

function least(places: readonly Position[], axis: 'x' | 'y'): number {
  return Math.min(...places.map((place) => place[axis]));
}

function most(places: readonly Position[], axis: 'x' | 'y'): number {
  return Math.max(...places.map((place) => place[axis]));
}
