/**
 * The document of a pipeline, as the server keeps it: JSON, nodes and edges by id. Documents are never changed: every
 * operation returns another one that shares the untouched parts.
 */

export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };
export type Params = Readonly<Record<string, Json>>;

/** Node and port. */
export type EdgeEnd = readonly [string, string];
export type Point = readonly [number, number];
export type Partitioning = 'rebalance' | 'rescale' | 'broadcast' | 'global' | 'shuffle';

export interface PipelineNode {
  readonly type: string;
  readonly type_version: number;
  readonly name: string;
  /** Identifies the operator's state across versions: renaming and moving keep it, copying makes another one. */
  readonly uid: string;
  readonly params: Params;
  readonly parallelism?: number | null;
  readonly max_parallelism?: number | null;
  readonly slot_group?: string | null;
  readonly chaining?: 'always' | 'head' | 'never';
  readonly disabled?: boolean;
  readonly schema?: Json;
}

export interface PipelineEdge {
  readonly from: EdgeEnd;
  readonly to: EdgeEnd;
  readonly partitioning?: Partitioning | null;
}

export interface Note {
  /** One line an item. */
  readonly text: readonly string[];
  readonly at: Point;
  readonly size: Point;
  readonly colour: string;
}

export interface Group {
  readonly name: string;
  readonly nodes: readonly string[];
  readonly collapsed: boolean;
}

export interface Layout {
  readonly positions?: Readonly<Record<string, Point>>;
  readonly notes?: Readonly<Record<string, Note>>;
  readonly groups?: Readonly<Record<string, Group>>;
  readonly colours?: Readonly<Record<string, string>>;
}

export interface PipelineDocument {
  readonly format: 'tidemark.pipeline';
  readonly version: number;
  readonly name: string;
  readonly description?: readonly string[];
  readonly settings?: Params;
  readonly parameters?: readonly Json[];
  readonly types?: Params;
  readonly code?: readonly string[];
  readonly nodes: Readonly<Record<string, PipelineNode>>;
  readonly edges: Readonly<Record<string, PipelineEdge>>;
  readonly samples?: Params;
  readonly tests?: readonly Json[];
  readonly layout?: Layout;
}

/** Makes the random part of ids; injected, so that the model stays pure. Hexadecimal, at least six digits. */
export type MakeId = () => string;

export const FORMAT = 'tidemark.pipeline';
export const VERSION = 1;

export function emptyDocument(name: string): PipelineDocument {
  return { format: FORMAT, version: VERSION, name, nodes: {}, edges: {}, layout: {} };
}

export function positionOf(document: PipelineDocument, id: string): Point {
  return document.layout?.positions?.[id] ?? [0, 0];
}

export function nameOf(document: PipelineDocument, id: string): string {
  return document.nodes[id]?.name ?? id;
}

/** Returns the map without some keys; the same map if it has none of them. */
export function without<T>(map: Readonly<Record<string, T>>, keys: ReadonlySet<string>): Readonly<Record<string, T>> {
  if (!Object.keys(map).some((key) => keys.has(key))) return map;
  return Object.fromEntries(Object.entries(map).filter(([key]) => !keys.has(key)));
}

/** An id that the map does not have. */
export function freeId(prefix: string, map: Readonly<Record<string, unknown>>, makeId: MakeId): string {
  let id = prefix + makeId().slice(0, 6);
  while (Object.hasOwn(map, id)) id = prefix + makeId().slice(0, 6);
  return id;
}

/** The uid of a new operator: its name for people, and four digits that make it another one. */
export function newUid(name: string, makeId: MakeId): string {
  return `${slug(name)}-${makeId().slice(0, 6)}`;
}

function slug(name: string): string {
  const text = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40);
  return text === '' ? 'node' : text;
}

/** Of a pipeline, a node, a test or a group. Longer names are refused by the server. */
export const MAX_NAME = 200;

/** A name without space around it, and no longer than names can be. */
export function namedAs(wanted: string): string {
  const text = wanted.trim();
  // no half of a pair
  return text.length <= MAX_NAME
    ? text
    : text
        .slice(0, MAX_NAME)
        .replace(/[\ud800-\udbff]$/, '')
        .trimEnd();
}

/** The name itself if no node has it, else with the next free number behind it. */
export function freeName(wanted: string, taken: ReadonlySet<string>): string {
  const name = namedAs(wanted);
  if (!taken.has(name)) return name;
  const base = name.replace(/ \d+$/, '').slice(0, MAX_NAME - 8);
  let number = 2;
  while (taken.has(`${base} ${number}`)) number += 1;
  return `${base} ${number}`;
}

export function namesOf(document: PipelineDocument): Set<string> {
  return new Set(Object.values(document.nodes).map(({ name }) => name));
}

/** What must hold of every document that the page makes; returns what does not. */
export function faults(document: PipelineDocument): string[] {
  const found: string[] = [];
  const has = (id: string) => Object.hasOwn(document.nodes, id);
  for (const [id, { from, to }] of Object.entries(document.edges)) {
    if (!has(from[0]) || !has(to[0])) found.push(`edge ${id} has a loose end`);
  }
  const uids = Object.values(document.nodes).map(({ uid }) => uid);
  if (new Set(uids).size < uids.length) found.push('two nodes have one uid');
  const { positions = {}, groups = {}, colours = {} } = document.layout ?? {};
  for (const id of [...Object.keys(positions), ...Object.keys(colours)]) {
    if (!has(id)) found.push(`the layout has the missing node ${id}`);
  }
  const members = Object.values(groups).flatMap(({ nodes }) => nodes);
  if (members.some((id) => !has(id))) found.push('a group has a missing node');
  if (new Set(members).size < members.length) found.push('a node is in two groups');
  return found;
}
