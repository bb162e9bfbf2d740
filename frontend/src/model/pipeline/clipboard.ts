/** What a copy puts on the system's clipboard, and what a paste makes of it: nodes, or rows of a table. */

import { t } from '../../texts/t';
import type { NodeType } from './catalog';
import { newNode } from './catalog';
import {
  type Group,
  type Json,
  type MakeId,
  type Note,
  MAX_NAME,
  type Partitioning,
  type PipelineDocument,
  type PipelineEdge,
  type PipelineNode,
  type Point,
  freeId,
  freeName,
  namesOf,
  newUid,
  positionOf,
} from './document';

export const CLIPBOARD_FORMAT = 'tidemark.nodes';
const CLIPBOARD_VERSION = 1;
const INLINE = 'source.inline';
/** Of pasted rows: more belong into a file. */
export const MAX_ROWS = 10_000;
const MAX_TEXT = 2 << 20;
const MAX_PARALLELISM = 32_768;
const PARTITIONINGS: readonly Partitioning[] = ['rebalance', 'rescale', 'broadcast', 'global', 'shuffle'];

export interface Clip {
  readonly format: typeof CLIPBOARD_FORMAT;
  readonly version: number;
  readonly nodes: Readonly<Record<string, PipelineNode>>;
  readonly edges: readonly PipelineEdge[];
  readonly positions: Readonly<Record<string, Point>>;
  readonly notes: readonly Note[];
  /** Those of which all nodes are copied. */
  readonly groups?: readonly Group[];
}

/** The nodes with the edges between them; null if there is nothing to copy. */
export function copied(document: PipelineDocument, ids: Iterable<string>, notes: Iterable<string> = []): Clip | null {
  const chosen = [...ids].filter((id) => Object.hasOwn(document.nodes, id));
  const nodes: Record<string, PipelineNode> = {};
  const positions: Record<string, Point> = {};
  for (const id of chosen) {
    const node = document.nodes[id];
    if (node === undefined) continue;
    nodes[id] = node;
    positions[id] = positionOf(document, id);
  }
  const edges = Object.values(document.edges).filter(
    ({ from, to }) => Object.hasOwn(nodes, from[0]) && Object.hasOwn(nodes, to[0]),
  );
  const texts = [...notes].flatMap((id) => document.layout?.notes?.[id] ?? []);
  if (chosen.length === 0 && texts.length === 0) return null;
  const groups = Object.values(document.layout?.groups ?? {}).filter((group) =>
    group.nodes.every((id) => Object.hasOwn(nodes, id)),
  );
  return { format: CLIPBOARD_FORMAT, version: CLIPBOARD_VERSION, nodes, edges, positions, notes: texts, groups };
}

export interface Pasted {
  readonly document: PipelineDocument;
  readonly nodes: readonly string[];
  readonly notes: readonly string[];
}

/** Adds copies of a clip with ids, names and uids of their own, its upper left corner at a point. */
export function pasted(document: PipelineDocument, clip: Clip, at: Point, makeId: MakeId): Pasted {
  const corners = [...Object.values(clip.positions), ...clip.notes.map((note) => note.at)];
  const left = Math.min(...corners.map(([x]) => x));
  const top = Math.min(...corners.map(([, y]) => y));
  const place = ([x, y]: Point): Point => [Math.round(at[0] + x - left), Math.round(at[1] + y - top)];
  const taken = namesOf(document);
  const nodes = { ...document.nodes };
  const edges = { ...document.edges };
  const positions = { ...document.layout?.positions };
  const texts = { ...document.layout?.notes };
  const newIds = new Map<string, string>();
  for (const [old, node] of Object.entries(clip.nodes)) {
    const id = freeId('n', nodes, makeId);
    const name = freeName(node.name, taken);
    taken.add(name);
    nodes[id] = { ...node, name, uid: newUid(name, makeId) };
    positions[id] = place(clip.positions[old] ?? [left, top]);
    newIds.set(old, id);
  }
  for (const edge of clip.edges) {
    const from = newIds.get(edge.from[0]);
    const to = newIds.get(edge.to[0]);
    if (from === undefined || to === undefined) continue;
    edges[freeId('e', edges, makeId)] = { ...edge, from: [from, edge.from[1]], to: [to, edge.to[1]] };
  }
  const noteIds = clip.notes.map((note) => {
    const id = freeId('t', texts, makeId);
    texts[id] = { ...note, at: place(note.at) };
    return id;
  });
  const groups = { ...document.layout?.groups };
  for (const group of clip.groups ?? []) {
    const members = group.nodes.flatMap((old) => newIds.get(old) ?? []);
    if (members.length === 0) continue;
    const name = freeName(group.name, new Set(Object.values(groups).map((each) => each.name)));
    groups[freeId('g', groups, makeId)] = { ...group, name, nodes: members };
  }
  const layout = { ...document.layout, positions, notes: texts, ...(clip.groups === undefined ? {} : { groups }) };
  return { document: { ...document, nodes, edges, layout }, nodes: [...newIds.values()], notes: noteIds };
}

/** Reads a clip from the clipboard's text; null if it is something else. What it holds is not trusted. */
export function readClip(text: string): Clip | null {
  if (text.length > MAX_TEXT || !text.includes(CLIPBOARD_FORMAT)) return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isRecord(value) || value.format !== CLIPBOARD_FORMAT || value.version !== CLIPBOARD_VERSION) return null;
  const { nodes, edges, positions, notes, groups = [] } = value;
  if (hasOddText(value)) return null;
  if (!isRecord(nodes) || !Array.isArray(edges) || !isRecord(positions) || !Array.isArray(notes)) return null;
  if (!Array.isArray(groups)) return null;
  const isSound =
    Object.values(nodes).every(isNode) &&
    edges.every(isEdge) &&
    Object.values(positions).every(isPoint) &&
    Object.keys(nodes).every((id) => Object.hasOwn(positions, id)) &&
    notes.every(isNote) &&
    groups.every(isGroup) &&
    areApart(groups as readonly Group[]) &&
    Object.keys(nodes).length + notes.length > 0;
  if (!isSound) return null;
  const clip = value as unknown as Clip;
  // what else a node has, no document may have
  const known = Object.entries(clip.nodes).map(([id, node]) => [id, knownOf(node)] as const);
  return { ...clip, nodes: Object.fromEntries(known), edges: clip.edges.map(knownEdge) };
}

/** A NUL, or half of a surrogate pair: the server refuses documents with either. */
function hasOddText(value: unknown): boolean {
  return /(?:^|[^\\])(?:\\\\)*\\u(?:0000|d[89a-f])/i.test(JSON.stringify(value));
}

function knownOf(node: Omit<PipelineNode, 'type_version'> & { readonly type_version?: number }): PipelineNode {
  const { type, type_version = 1, name, uid, params, disabled = false, schema } = node;
  const { parallelism = null, max_parallelism = null, slot_group = null, chaining = 'always' } = node;
  const made = { type, type_version, name, uid, params, parallelism, max_parallelism, slot_group, chaining, disabled };
  return schema === undefined ? made : { ...made, schema };
}

function knownEdge({ from, to, partitioning }: PipelineEdge): PipelineEdge {
  return { from, to, partitioning: PARTITIONINGS.find((each) => each === partitioning) ?? null };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isNode(value: unknown): boolean {
  if (!isRecord(value) || !isRecord(value.params)) return false;
  const { type, name, type_version, parallelism, max_parallelism, slot_group, chaining, disabled, schema } = value;
  return (
    isName(type, 100) &&
    isName(name, MAX_TEXT) &&
    (type_version === undefined || isCount(type_version)) &&
    [parallelism, max_parallelism].every((each) => isAbsent(each) || (isCount(each) && each <= MAX_PARALLELISM)) &&
    (isAbsent(slot_group) || isName(slot_group, MAX_NAME)) &&
    (chaining === undefined || ['always', 'head', 'never'].some((each) => each === chaining)) &&
    (disabled === undefined || typeof disabled === 'boolean') &&
    (isAbsent(schema) || (isRecord(schema) && typeof schema.row === 'string'))
  );
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null;
}

function isName(value: unknown, most: number): boolean {
  return typeof value === 'string' && value.trim() !== '' && value.length <= most;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}

function isEdge(value: unknown): boolean {
  return isRecord(value) && [value.from, value.to].every(isEnd);
}

function isEnd(value: unknown): boolean {
  return Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === 'string' && part !== '');
}

function isPoint(value: unknown): boolean {
  return Array.isArray(value) && value.length === 2 && value.every((part) => Number.isFinite(part));
}

function isGroup(value: unknown): boolean {
  if (!isRecord(value) || typeof value.name !== 'string' || typeof value.collapsed !== 'boolean') return false;
  return Array.isArray(value.nodes) && value.nodes.every((id) => typeof id === 'string');
}

/** Whether no node is in two groups. */
function areApart(groups: readonly Group[]): boolean {
  const members = groups.flatMap(({ nodes }) => nodes);
  return new Set(members).size === members.length;
}

function isNote(value: unknown): boolean {
  if (!isRecord(value) || typeof value.colour !== 'string' || !isPoint(value.at) || !isPoint(value.size)) return false;
  return Array.isArray(value.text) && value.text.every((each) => typeof each === 'string');
}

// --- rows -----------------------------------------------------------------------------------------------------------

export interface Table {
  /** Name and type of each column. */
  readonly columns: readonly (readonly [string, string])[];
  readonly rows: readonly (readonly Json[])[];
}

/** Reads rows as CSV or TSV with a header, JSON lines, or a JSON array of objects; null if the text is none of them. */
export function readTable(text: string): Table | null {
  if (text.length > MAX_TEXT) return null;
  const trimmed = text.trim();
  const objects = trimmed.startsWith('[') ? jsonArray(trimmed) : trimmed.startsWith('{') ? jsonLines(trimmed) : null;
  if (objects !== null && !hasOddText(objects)) return tableOf(objects);
  return trimmed.startsWith('[') || trimmed.startsWith('{') ? null : delimited(trimmed);
}

function jsonArray(text: string): Record<string, Json>[] | null {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.length > 0 && value.every(isRecord) ? (value as Record<string, Json>[]) : null;
  } catch {
    return null;
  }
}

function jsonLines(text: string): Record<string, Json>[] | null {
  const rows: Record<string, Json>[] = [];
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    try {
      const value: unknown = JSON.parse(line);
      if (!isRecord(value)) return null;
      rows.push(value as Record<string, Json>);
    } catch {
      return null;
    }
  }
  return rows;
}

function tableOf(objects: readonly Record<string, Json>[]): Table {
  const names = [...new Set(objects.flatMap(Object.keys))];
  const kept = objects.slice(0, MAX_ROWS);
  const rows = kept.map((object) => names.map((name) => object[name] ?? null));
  return typed(names, rows);
}

function delimited(text: string): Table | null {
  const delimiter = text.split('\n', 1)[0]?.includes('\t') === true ? '\t' : ',';
  const lines = cells(text, delimiter);
  const [header, ...body] = lines;
  if (header === undefined || body.length === 0 || header.length < 2) return null;
  const isTable =
    body.every((line) => line.length === header.length) &&
    new Set(header).size === header.length &&
    header.every((name) => /^[\p{L}_][\p{L}\p{N}_ .-]*$/u.test(name));
  if (!isTable) return null;
  const kept = body.slice(0, MAX_ROWS).map((line) => line.map((cell): Json => (cell === '' ? null : cell)));
  return typed(header, kept, true);
}

/** Splits delimited text as RFC 4180 has it: quotes around cells, doubled within. */
function cells(text: string, delimiter: string): string[][] {
  const lines: string[][] = [];
  let line: string[] = [];
  let cell = '';
  let isQuoted = false;
  for (let index = 0; index < text.length; index += 1) {
    const character = text.charAt(index);
    if (isQuoted) {
      if (character !== '"') cell += character;
      else if (text.charAt(index + 1) === '"') {
        cell += '"';
        index += 1;
      } else isQuoted = false;
    } else if (character === '"' && cell === '') isQuoted = true;
    else if (character === delimiter) {
      line.push(cell.trim());
      cell = '';
    } else if (character === '\n') {
      lines.push([...line, cell.trim()]);
      line = [];
      cell = '';
    } else cell += character;
  }
  lines.push([...line, cell.trim()]);
  return lines.filter((each) => each.length > 1 || each[0] !== '');
}

/** Gives each column the narrowest type that holds all of its values. */
function typed(names: readonly string[], rows: readonly (readonly Json[])[], isText = false): Table {
  const types = names.map((_, index) => typeOfColumn(rows.map((row) => row[index] ?? null)));
  const convert = (value: Json, type: string | undefined): Json => {
    if (value === null) return null;
    if (type === 'string') return typeof value === 'string' ? value : JSON.stringify(value);
    if (!isText) return value;
    if (type === 'boolean') return value === 'true';
    return type === 'long' || type === 'double' ? Number(value) : value;
  };
  return {
    columns: names.map((name, index) => [name, types[index] ?? 'string']),
    rows: rows.map((row) => row.map((value, index) => convert(value, types[index]))),
  };
}

function typeOfColumn(values: readonly Json[]): string {
  const present = values.filter((value) => value !== null);
  const all = (test: (value: Json) => boolean) => present.length > 0 && present.every(test);
  if (all((value) => typeof value === 'boolean' || value === 'true' || value === 'false')) return 'boolean';
  if (all((value) => /^-?(0|[1-9]\d{0,14})$/.test(textOf(value)))) return 'long';
  if (all((value) => typeof value !== 'object' && /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(textOf(value))))
    return 'double';
  if (all((value) => /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(textOf(value)))) return 'sql_timestamp';
  return 'string';
}

function textOf(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** A source of pasted rows. */
export function inlineNode(document: PipelineDocument, type: NodeType, table: Table, makeId: MakeId): PipelineNode {
  const name = freeName(t('Pasted rows'), namesOf(document));
  const columns = table.columns.map(([column, kind]): Json => [column, kind]);
  const made = newNode(type);
  return { ...made, name, uid: newUid(name, makeId), params: { ...made.params, type: columns, rows: table.rows } };
}

export function inlineType(types: readonly NodeType[]): NodeType | undefined {
  return types.find(({ type }) => type === INLINE);
}
