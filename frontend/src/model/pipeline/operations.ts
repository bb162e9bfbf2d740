/** What a user can do to a pipeline. Each operation returns another document; one that cannot be done says why. */

import { t } from '../../texts/t';
import type { Facts, NodeType, Port, Ports } from './catalog';
import { newNode } from './catalog';
import {
  type Group,
  type Json,
  type Layout,
  type MakeId,
  type Note,
  type Partitioning,
  type PipelineDocument,
  type PipelineEdge,
  type PipelineNode,
  type Point,
  freeId,
  freeName,
  namedAs,
  namesOf,
  newUid,
  positionOf,
  without,
} from './document';
import { below } from './order';

export interface Made {
  readonly document: PipelineDocument;
  readonly id: string;
}

/** Distance between the left sides of neighbours, and what an inserted node moves the ones behind it by. */
export const STEP: Point = [300, 130];
/** Width and height of a new note. */
export const NOTE_SIZE: Point = [220, 110];
/** Room that the box of a node takes, with its margin. */
const BOX: Point = [220, 80];

export function addNode(document: PipelineDocument, type: NodeType, at: Point, makeId: MakeId): Made {
  const made = newNode(type);
  const name = freeName(made.name, namesOf(document));
  return withNode(document, { ...made, name, uid: newUid(name, makeId) }, at, makeId);
}

export function withNode(document: PipelineDocument, node: PipelineNode, at: Point, makeId: MakeId): Made {
  const id = freeId('n', document.nodes, makeId);
  const nodes = { ...document.nodes, [id]: node };
  return { document: moveNodes({ ...document, nodes }, { [id]: at }), id };
}

// --- edges ----------------------------------------------------------------------------------------------------------

export type PortsLookup = (id: string) => Ports;
/** What is known of the stream that leaves an output of a node; null: nothing. */
export type FactsLookup = (from: readonly [string, string]) => Facts | null;

const NOTHING_KNOWN: FactsLookup = () => null;

/** Why an output cannot be connected to an input; null if it can. */
export function refusal(
  document: PipelineDocument,
  from: readonly [string, string],
  to: readonly [string, string],
  ports: PortsLookup,
  facts: FactsLookup = NOTHING_KNOWN,
): string | null {
  const source = document.nodes[from[0]];
  const node = document.nodes[to[0]];
  if (source === undefined || node === undefined) return t('The node no longer exists');
  const input = ports(to[0]).inputs.find(({ name }) => name === to[1]);
  if (input === undefined) return t('{name} has no such input', { name: node.name });
  if (!ports(from[0]).outputs.some(({ name }) => name === from[1]))
    return t('{name} has no such output', { name: source.name });
  if (from[0] === to[0]) return t('A node cannot feed itself');
  const into = Object.values(document.edges).filter((edge) => edge.to[0] === to[0] && edge.to[1] === to[1]);
  if (into.some((edge) => edge.from[0] === from[0] && edge.from[1] === from[1])) return t('Already connected');
  if (into.length > 0 && !input.many)
    return t('The input {input} is taken: put a Union before it', { input: labelOf(input) });
  if (below(document, to[0]).has(from[0])) return t('That would make a cycle');
  return changelogRefusal(input, facts(from), node.name);
}

/** Why an input cannot take a stream whose rows take earlier ones back, and what helps; null if it can. */
export function changelogRefusal(input: Port, facts: Facts | null, name: string): string | null {
  if (input.takes_changelogs || facts?.changelog !== 'retract') return null;
  const helps =
    input.changelog_option === ''
      ? t('put it before the node that makes the changelog, or aggregate by window there')
      : input.changelog_option;
  return t('{name} takes new rows only, and this stream takes rows back: {helps}', { name, helps });
}

/** Whether a new node of a type may stand behind a stream: it takes it as it is, or once an option is set. */
export function fitsBehind(type: NodeType, facts: Facts | null): boolean {
  const [input] = type.ports.inputs;
  return input !== undefined && (input.changelog_option !== '' || changelogRefusal(input, facts, type.title) === null);
}

function labelOf(port: Port): string {
  return port.label === '' ? port.name : port.label;
}

/** Adds an edge. The caller has asked for refusals. */
export function connect(
  document: PipelineDocument,
  from: readonly [string, string],
  to: readonly [string, string],
  makeId: MakeId,
): Made {
  const id = freeId('e', document.edges, makeId);
  return { document: { ...document, edges: { ...document.edges, [id]: { from, to, partitioning: null } } }, id };
}

/** The first input of a node that takes a stream from this output. */
export function openInput(
  document: PipelineDocument,
  from: readonly [string, string],
  id: string,
  ports: PortsLookup,
  facts: FactsLookup = NOTHING_KNOWN,
): string | null {
  const inputs = ports(id).inputs;
  return inputs.find(({ name }) => refusal(document, from, [id, name], ports, facts) === null)?.name ?? null;
}

export function setPartitioning(document: PipelineDocument, id: string, partitioning: Partitioning | null) {
  return withEdge(document, id, (edge) => ({ ...edge, partitioning }));
}

function withEdge(document: PipelineDocument, id: string, change: (edge: PipelineEdge) => PipelineEdge) {
  const edge = document.edges[id];
  return edge === undefined ? document : { ...document, edges: { ...document.edges, [id]: change(edge) } };
}

/**
 * Puts a node into an edge: the edge ends at its first input and goes on from its first output. What lies behind moves
 * to the right if there is no room. A node without input or output cannot be put into one.
 */
export function insertOnEdge(
  document: PipelineDocument,
  edgeId: string,
  id: string,
  ports: Ports,
  makeId: MakeId,
): PipelineDocument | null {
  const edge = document.edges[edgeId];
  const input = ports.inputs[0];
  const output = ports.outputs[0];
  if (edge === undefined || input === undefined || output === undefined) return null;
  if (edge.from[0] === id || edge.to[0] === id) return null;
  const first = withEdge(document, edgeId, (old) => ({ from: old.from, to: [id, input.name], partitioning: null }));
  const made = freeId('e', first.edges, makeId);
  const second: PipelineEdge = { ...edge, from: [id, output.name] };
  return { ...first, edges: { ...first.edges, [made]: second } };
}

/** Makes a node of a type in an edge. Null if the type has no input or no output. */
export function insertNew(document: PipelineDocument, edgeId: string, type: NodeType, makeId: MakeId): Made | null {
  const edge = document.edges[edgeId];
  if (edge === undefined) return null;
  const [fromX, fromY] = positionOf(document, edge.from[0]);
  const [toX, toY] = positionOf(document, edge.to[0]);
  const needs = fromX + 2 * STEP[0] - toX;
  let roomy = document;
  if (needs > 0) {
    // everything behind the edge moves on, so that the order of boxes stays
    const moved: Record<string, Point> = {};
    for (const each of below(document, edge.to[0])) {
      const [x, y] = positionOf(document, each);
      moved[each] = [x + needs, y];
    }
    roomy = moveNodes(document, moved);
  }
  const at: Point = [Math.round((fromX + Math.max(toX, fromX + 2 * STEP[0])) / 2), Math.round((fromY + toY) / 2)];
  const made = addNode(roomy, type, at, makeId);
  const inserted = insertOnEdge(made.document, edgeId, made.id, type.ports, makeId);
  return inserted === null ? null : { document: inserted, id: made.id };
}

// --- deleting -------------------------------------------------------------------------------------------------------

export interface Removal {
  readonly nodes?: Iterable<string>;
  readonly edges?: Iterable<string>;
  readonly notes?: Iterable<string>;
  /** Join what was before a node with what was behind it, where it had one edge in and one out or more. */
  readonly heals?: boolean;
}

export function remove(document: PipelineDocument, removal: Removal, makeId: MakeId): PipelineDocument {
  const nodes = new Set(removal.nodes);
  let healed = { ...document, edges: without(document.edges, new Set(removal.edges)) };
  for (const id of nodes) healed = withoutNode(healed, id, removal.heals ?? true, makeId);
  const notes = new Set(removal.notes);
  const layout = healed.layout ?? {};
  return {
    ...healed,
    nodes: without(healed.nodes, nodes),
    ...(healed.samples === undefined ? {} : { samples: without(healed.samples, nodes) }),
    layout: {
      ...layout,
      ...(layout.positions === undefined ? {} : { positions: without(layout.positions, nodes) }),
      ...(layout.colours === undefined ? {} : { colours: without(layout.colours, nodes) }),
      ...(layout.notes === undefined ? {} : { notes: without(layout.notes, notes) }),
      ...(layout.groups === undefined ? {} : { groups: withoutMembers(layout.groups, nodes) }),
    },
  };
}

/** Takes the edges of a node away; with one edge in and the others out, its input goes on to what it fed. */
function withoutNode(document: PipelineDocument, id: string, heals: boolean, makeId: MakeId): PipelineDocument {
  const all = Object.entries(document.edges);
  const into = all.filter(([, { to }]) => to[0] === id).map(([, edge]) => edge);
  const out = all.filter(([, { from }]) => from[0] === id).map(([, edge]) => edge);
  const ends = new Set(all.filter(([, { from, to }]) => from[0] === id || to[0] === id).map(([key]) => key));
  let edges = without(document.edges, ends);
  const first = into[0];
  if (heals && into.length === 1 && first !== undefined) {
    for (const { to, partitioning } of out) {
      const isThere = Object.values(edges).some(
        (edge) => edge.from.join('\n') === first.from.join('\n') && edge.to.join('\n') === to.join('\n'),
      );
      if (isThere) continue;
      edges = { ...edges, [freeId('e', edges, makeId)]: { from: first.from, to, partitioning: partitioning ?? null } };
    }
  }
  return { ...document, edges };
}

function withoutMembers(groups: Readonly<Record<string, Group>>, gone: ReadonlySet<string>) {
  const left = Object.entries(groups).map(([id, group]): [string, Group] => {
    const nodes = group.nodes.filter((node) => !gone.has(node));
    return [id, nodes.length === group.nodes.length ? group : { ...group, nodes }];
  });
  return Object.fromEntries(left.filter(([, { nodes }]) => nodes.length > 0));
}

// --- one node -------------------------------------------------------------------------------------------------------

export function changeNode(
  document: PipelineDocument,
  id: string,
  change: (node: PipelineNode) => PipelineNode,
): PipelineDocument {
  const node = document.nodes[id];
  if (node === undefined) return document;
  const changed = change(node);
  return changed === node ? document : { ...document, nodes: { ...document.nodes, [id]: changed } };
}

/** Sets a parameter; undefined removes it, and its default holds. */
export function setParam(document: PipelineDocument, id: string, name: string, value: Json | undefined) {
  if (document.nodes[id]?.params[name] === value) return document;
  return changeNode(document, id, (node) => ({
    ...node,
    params: value === undefined ? without(node.params, new Set([name])) : { ...node.params, [name]: value },
  }));
}

/** Renames a node. A name that another one has gets a number. */
export function renameNode(document: PipelineDocument, id: string, name: string): PipelineDocument {
  const wanted = namedAs(name);
  const old = document.nodes[id]?.name;
  if (wanted === '' || old === undefined || wanted === old) return document;
  const taken = namesOf(document);
  taken.delete(old);
  return changeNode(document, id, (node) => ({ ...node, name: freeName(wanted, taken) }));
}

/** Disables nodes, or enables them if all of them are disabled. */
export function toggleDisabled(document: PipelineDocument, ids: Iterable<string>): PipelineDocument {
  const nodes = [...ids].filter((id) => Object.hasOwn(document.nodes, id));
  const disabled = nodes.some((id) => document.nodes[id]?.disabled !== true);
  return nodes.reduce((changed, id) => changeNode(changed, id, (node) => ({ ...node, disabled })), document);
}

// --- layout ---------------------------------------------------------------------------------------------------------

function withLayout(document: PipelineDocument, layout: Layout): PipelineDocument {
  return { ...document, layout: { ...document.layout, ...layout } };
}

export function moveNodes(document: PipelineDocument, to: Readonly<Record<string, Point>>): PipelineDocument {
  const known = Object.entries(to).filter(([id]) => Object.hasOwn(document.nodes, id));
  const moved = known.filter(([id, [x, y]]) => {
    const old = document.layout?.positions?.[id];
    return old?.[0] !== x || old[1] !== y;
  });
  if (moved.length === 0) return document;
  return withLayout(document, { positions: { ...document.layout?.positions, ...Object.fromEntries(moved) } });
}

/** Returns the place, or the next one below it where a node covers no other. */
export function uncovered(document: PipelineDocument, [x, y]: Point): Point {
  const places = Object.keys(document.nodes).map((id) => positionOf(document, id));
  let below = y;
  while (places.some(([otherX, otherY]) => Math.abs(otherX - x) < BOX[0] && Math.abs(otherY - below) < BOX[1])) {
    below += STEP[1];
  }
  return [x, below];
}

/** Puts positions on a grid of whole pixels. */
export function snapped([x, y]: Point, grid = 10): Point {
  return [Math.round(x / grid) * grid, Math.round(y / grid) * grid];
}

export function addNote(document: PipelineDocument, at: Point, makeId: MakeId): Made {
  const notes = document.layout?.notes ?? {};
  const id = freeId('t', notes, makeId);
  const note: Note = { text: [], at, size: NOTE_SIZE, colour: 'yellow' };
  return { document: withLayout(document, { notes: { ...notes, [id]: note } }), id };
}

export function changeNote(document: PipelineDocument, id: string, change: Partial<Note>): PipelineDocument {
  const note = document.layout?.notes?.[id];
  if (note === undefined) return document;
  return withLayout(document, { notes: { ...document.layout?.notes, [id]: { ...note, ...change } } });
}

/** Groups nodes; they leave the groups that they were in. */
export function addGroup(document: PipelineDocument, ids: Iterable<string>, makeId: MakeId): Made | null {
  const nodes = [...ids].filter((id) => Object.hasOwn(document.nodes, id));
  if (nodes.length === 0) return null;
  const left = withoutMembers(document.layout?.groups ?? {}, new Set(nodes));
  const id = freeId('g', left, makeId);
  const name = freeName(t('Group'), new Set(Object.values(left).map((group) => group.name)));
  return { document: withLayout(document, { groups: { ...left, [id]: { name, nodes, collapsed: false } } }), id };
}

export function changeGroup(document: PipelineDocument, id: string, change: Partial<Group>): PipelineDocument {
  const group = document.layout?.groups?.[id];
  if (group === undefined) return document;
  return withLayout(document, { groups: { ...document.layout?.groups, [id]: { ...group, ...change } } });
}

/** Renames a group; groups may have one name. */
export function renameGroup(document: PipelineDocument, id: string, name: string): PipelineDocument {
  const wanted = namedAs(name);
  return wanted === '' ? document : changeGroup(document, id, { name: wanted });
}

export function ungroup(document: PipelineDocument, id: string): PipelineDocument {
  return withLayout(document, { groups: without(document.layout?.groups ?? {}, new Set([id])) });
}

// --- the whole ------------------------------------------------------------------------------------------------------

export function renamePipeline(document: PipelineDocument, name: string): PipelineDocument {
  const wanted = namedAs(name);
  return wanted === '' || wanted === document.name ? document : { ...document, name: wanted };
}

export function setSetting(document: PipelineDocument, name: string, value: Json | undefined): PipelineDocument {
  const settings = document.settings ?? {};
  return {
    ...document,
    settings: value === undefined ? without(settings, new Set([name])) : { ...settings, [name]: value },
  };
}
