/** What a preview shows: rows of ports as tables, what of it holds after an edit, and how it ended, in words. */

import type { PreviewAnswer, PreviewEnd, PreviewPort } from '../../gen/contract';
import { t } from '../../texts/t';
import { type Json, type PipelineDocument, nameOf } from './document';
import { isSameValue, topologicalOrder } from './order';

/** Node and port. */
export type Place = readonly [string, string];

/** Key of the change kind in rows that are not inserted. */
const KIND = '$kind';
const SIGNS: Readonly<Record<string, string>> = {
  INSERT: '+I',
  UPDATE_BEFORE: '−U',
  UPDATE_AFTER: '+U',
  DELETE: '−D',
};
export const KIND_WORDS: Readonly<Record<string, string>> = {
  '+I': 'inserted',
  '−U': t('takes back the row before an update'),
  '+U': t('the row after an update'),
  '−D': 'deleted',
};
/** Longer values are cut in tables; they are shown whole on their own. */
export const SHORT_CHARS = 60;

export interface TableColumn {
  readonly name: string;
  readonly type: string;
}

export interface TableRow {
  readonly cells: readonly Json[];
  /** As Flink writes it: +I, −U, +U, −D. */
  readonly kind: string;
  readonly time: number | null;
  /** That had come before the row. */
  readonly watermark: number | null;
  /** Its event time is not after the watermark. */
  readonly isLate: boolean;
}

export interface RowTable {
  readonly columns: readonly TableColumn[];
  readonly rows: readonly TableRow[];
  readonly hasTimes: boolean;
  /** Whether rows take earlier ones back. */
  readonly hasKinds: boolean;
}

/** What came over the socket, whose patches leave out members that are null. */
export function completed(answer: PreviewAnswer): PreviewAnswer {
  const end = answer.end as Partial<PreviewEnd> | null | undefined;
  const ports = Object.entries(answer.ports).map(([node, each]) => {
    const filled = Object.entries(each).map(([name, port]) => [name, { ...NO_PORT, ...port }] as const);
    return [node, Object.fromEntries(filled)] as const;
  });
  return {
    ...answer,
    ports: Object.fromEntries(ports),
    end: end === null || end === undefined ? null : { ...NO_END, ...end },
  };
}

const NO_PORT = { columns: null, watermark: null };
const NO_END: PreviewEnd = {
  message: '',
  node: null,
  line: null,
  code_line: null,
  traceback: '',
  simulated: null,
  limited: [],
  output: '',
};

export function tableOf(port: PreviewPort): RowTable {
  const sample = port.sample as readonly Json[];
  const columns = (port.columns ?? columnsOf(sample)).map(([name = '', type = '']) => ({ name, type }));
  const rows = sample.map((value, index): TableRow => {
    const time = port.times[index] ?? null;
    const watermark = port.watermarks[index] ?? null;
    const kind = SIGNS[isObject(value) && typeof value[KIND] === 'string' ? value[KIND] : 'INSERT'];
    return {
      cells: isObject(value) ? columns.map(({ name }) => value[name] ?? null) : [value],
      kind: kind ?? '?',
      time,
      watermark,
      isLate: time !== null && watermark !== null && time <= watermark,
    };
  });
  return {
    columns,
    rows,
    hasTimes: rows.some(({ time }) => time !== null),
    hasKinds: rows.some(({ kind }) => kind !== '+I'),
  };
}

/** Columns of Python objects: the keys of the dicts among them, else one. */
function columnsOf(sample: readonly Json[]): readonly (readonly string[])[] {
  const names = new Set(sample.flatMap((value) => (isObject(value) ? Object.keys(value) : [])));
  names.delete(KIND);
  return names.size === 0 ? [['value', '']] : [...names].map((name) => [name, '']);
}

export function isObject(value: Json | undefined): value is Readonly<Record<string, Json>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A value as one line; null is told apart from the text "null" by the caller. */
export function cellText(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** A value on its own: nested ones are indented. */
export function wholeText(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

/** The ports that have shown something, from the sources down, of nodes that are still there. */
export function placesOf(document: PipelineDocument, preview: PreviewAnswer | null): readonly Place[] {
  if (preview === null) return [];
  const order = topologicalOrder(document);
  return Object.entries(preview.ports)
    .filter(([node]) => Object.hasOwn(document.nodes, node))
    .sort(([one], [other]) => order.indexOf(one) - order.indexOf(other))
    .flatMap(([node, ports]) => Object.keys(ports).map((port): Place => [node, port]));
}

/** What is shown for a selection: the ports of its nodes, and those that its edges begin at. */
export function chosenPlaces(
  document: PipelineDocument,
  preview: PreviewAnswer | null,
  nodes: readonly string[],
  edges: readonly string[],
): readonly Place[] {
  const begun = edges.flatMap((id) => {
    const edge = document.edges[id];
    return edge === undefined ? [] : [placeKey(edge.from)];
  });
  return placesOf(document, preview).filter((place) => nodes.includes(place[0]) || begun.includes(placeKey(place)));
}

export function placeKey([node, port]: Place): string {
  return `${node} ${port}`;
}

/** The name of a port for people: the node's, and the port's if it has others. */
export function placeName(document: PipelineDocument, [node, port]: Place): string {
  const name = nameOf(document, node);
  return port === 'out' || port === 'in' ? name : `${name}: ${port}`;
}

/** Rows that have left a node, by all outputs; of a sink, that have come; null: nothing is known. */
export function rowsOfNode(preview: PreviewAnswer | null, node: string): number | null {
  const ports = Object.values(preview?.ports[node] ?? {});
  return ports.length === 0 ? null : ports.reduce((sum, { rows }) => sum + rows, 0);
}

/** What of the job is around every node. */
const AROUND = ['parameters', 'types', 'code'] as const;

/**
 * Nodes for which what was seen may no longer hold: they, or something above them, were edited. A node's name, place
 * and parallelism change nothing of its rows.
 */
export function staleNodes(previewed: PipelineDocument, present: PipelineDocument): ReadonlySet<string> {
  const ids = Object.keys(present.nodes);
  if (AROUND.some((part) => !isSameValue(filled(previewed[part]), filled(present[part])))) return new Set(ids);
  const stale = new Set<string>();
  const [before, now] = [inputsByNode(previewed), inputsByNode(present)];
  for (const id of topologicalOrder(present)) {
    const isSame =
      isSameNode(previewed, present, id) &&
      isSameValue(before.get(id) ?? [], now.get(id) ?? []) &&
      (now.get(id) ?? []).every(([source]) => !stale.has(source));
    if (!isSame) stale.add(id);
  }
  return stale;
}

/** Absent and empty mean the same. */
function filled(value: unknown): unknown {
  return value === undefined || value === null || Object.keys(value).length === 0 ? null : value;
}

function isSameNode(one: PipelineDocument, other: PipelineDocument, id: string): boolean {
  if (one.nodes[id] === other.nodes[id] && one.samples?.[id] === other.samples?.[id]) return true;
  return isSameValue(relevant(one, id), relevant(other, id));
}

function relevant(document: PipelineDocument, id: string): unknown {
  const node = document.nodes[id];
  if (node === undefined) return null;
  const sample = document.samples?.[id];
  const pinned = isObject(sample) && sample.pinned === true ? sample : null;
  return [node.type, node.type_version, node.params, node.disabled === true, node.schema ?? null, pinned];
}

/** Where each node's rows come from: node, its output, and our input, in a fixed order. */
function inputsByNode(document: PipelineDocument): ReadonlyMap<string, readonly (readonly [string, string, string])[]> {
  const found = new Map<string, [string, string, string][]>();
  for (const { from, to } of Object.values(document.edges)) {
    const known = found.get(to[0]) ?? [];
    known.push([from[0], from[1], to[1]]);
    found.set(to[0], known);
  }
  for (const inputs of found.values()) inputs.sort((one, other) => (one.join(' ') < other.join(' ') ? -1 : 1));
  return found;
}

export interface Ending {
  readonly tone: 'good' | 'bad' | 'plain';
  readonly title: string;
  /** Further sentences. */
  readonly notes: readonly string[];
}

const TITLES: Readonly<Record<PreviewAnswer['state'], string>> = {
  running: t('Running'),
  finished: t('Finished'),
  failed: t('Failed'),
  stopped: t('Stopped'),
  'timed out': t('Timed out'),
  lost: t('Lost'),
};

/** How a preview ended, or that it runs. */
export function endingOf(document: PipelineDocument, preview: PreviewAnswer): Ending {
  const { state, end } = preview;
  const limited = end?.limited ?? [];
  const isLimited = state === 'finished' && limited.length > 0;
  const notes: string[] = [];
  if (state === 'lost')
    notes.push(t('The process that ran it has ended, or the server has forgotten it. Run it again.'));
  if (end !== null && state !== 'finished' && state !== 'stopped' && end.message !== '') notes.push(end.message);
  if (isLimited) {
    const names = limited.map((id) => nameOf(document, id)).join(', ');
    notes.push(
      limited.length === 1
        ? t('{names} was ended early, so open windows fired.', { names })
        : t('{names} were ended early, so open windows fired.', { names }),
    );
  }
  if (end?.simulated === true) notes.push(t('Time was simulated: waits were skipped.'));
  if (end?.simulated === false) notes.push(t('Time was real, because a source reads from an external system.'));
  return {
    tone:
      state === 'failed' || state === 'timed out' || state === 'lost' ? 'bad' : state === 'finished' ? 'good' : 'plain',
    title: isLimited ? t('Finished, limited') : TITLES[state],
    notes,
  };
}

export interface Failure {
  readonly node: string | null;
  readonly text: string;
  /** Where a jump leads to. */
  readonly field: string | null;
  /** Of the field's Python. */
  readonly line: number | null;
}

/** Where it failed, for people and for a jump; null: that is not known. */
export function failureOf(document: PipelineDocument, preview: PreviewAnswer): Failure | null {
  const { end, state } = preview;
  if (end === null || state !== 'failed' || (end.node === null && end.line === null)) return null;
  const name = end.node === null ? t('the shared code') : nameOf(document, end.node);
  if (end.code_line !== null) {
    const field = end.node === null ? '/code' : '/params/code';
    return {
      node: end.node,
      text: t('{name}, line {codeLine} of its Python', { name, codeLine: end.code_line }),
      field,
      line: end.code_line,
    };
  }
  const line = end.line === null ? '' : t(', line {line} of the program', { line: end.line });
  return { node: end.node, text: `${end.node === null ? t('The program') : name}${line}`, field: null, line: null };
}
