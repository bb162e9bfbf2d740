/**
 * Merges two people's work on one pipeline, field by field, against the document that both began with.
 *
 * A field is an edge, a parameter, a setting, or another property of a node. What one side has left alone is taken from the other. A field that both have changed differently is
 * a conflict: the merged document has our value until somebody chooses. Where boxes lie is never asked about: ours holds.
 * What both have connected is connected once, and an edge of theirs that would make a circle of ours is a conflict.
 */

import { t } from '../../texts/t';
import type { Json, PipelineDocument, PipelineEdge } from './document';
import { faults, nameOf, without } from './document';
import { below, ranks } from './order';

type Value = Json | undefined;

export interface Conflict {
  readonly path: readonly string[];
  /** Undefined: not there. */
  readonly base: Value;
  readonly ours: Value;
  readonly theirs: Value;
  /** A node that we have deleted is back, because the other side has connected something to it. */
  readonly isBack?: boolean;
}

export type Side = 'ours' | 'theirs';

export interface Merge {
  readonly document: PipelineDocument;
  readonly conflicts: readonly Conflict[];
}

export function mergeDocuments(base: PipelineDocument, ours: PipelineDocument, theirs: PipelineDocument): Merge {
  const conflicts: Conflict[] = [];
  const merged = mergeValue(
    [],
    asValue(base),
    asValue(ours),
    asValue(theirs),
    conflicts,
  ) as unknown as PipelineDocument;
  const joined = withoutCircles(withoutDoubles(merged, ours, conflicts), base, ours, conflicts);
  return { document: repaired(joined, ours, theirs, base, conflicts), conflicts };
}

/**
 * The document with a conflict decided for one side. What the document holds may be newer than the merge: the side that
 * it holds writes nothing, and the same document comes back.
 */
export function decided(document: PipelineDocument, conflict: Conflict, side: Side): PipelineDocument {
  if (side === holding(conflict) || !hasPlace(document, conflict.path)) return document;
  const changed = placed(asValue(document), conflict.path, conflict[side]) as unknown as PipelineDocument;
  const [top, part, id] = conflict.path;
  // the group that was chosen has its nodes, whoever else has them
  return tidied(changed, top === 'layout' && part === 'groups' ? id : undefined);
}

/** What a side would have at a conflict's place: as it is now, or as it was at the merge. */
export function valueOf(document: PipelineDocument, conflict: Conflict, side: Side): Json | undefined {
  return side === holding(conflict) ? valueAt(document, conflict.path) : conflict[side];
}

/** The side that the document has until somebody chooses. */
function holding({ isBack }: Conflict): Side {
  return isBack === true ? 'theirs' : 'ours';
}

/**
 * The conflicts that are still to be decided: the work goes on while they wait. What belongs to a node that was deleted
 * meanwhile is none, nor is what both sides would leave as it is; of one place, the last one counts.
 */
export function openConflicts(document: PipelineDocument, conflicts: readonly Conflict[]): readonly Conflict[] {
  const last = new Map(conflicts.map((conflict) => [placeKey(conflict), conflict]));
  return [...last.values()].filter(
    (conflict) =>
      hasPlace(document, conflict.path) &&
      !isEqual(valueOf(document, conflict, 'ours'), valueOf(document, conflict, 'theirs')),
  );
}

/** The conflicts without those of one place. */
export function withoutPlace(conflicts: readonly Conflict[], decided: Conflict): readonly Conflict[] {
  return conflicts.filter((conflict) => placeKey(conflict) !== placeKey(decided));
}

/** What stands at a place now. Undefined: nothing. */
function valueAt(document: PipelineDocument, path: readonly string[]): Value {
  return path.reduce<Value>(
    (value, key) => (isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined),
    asValue(document),
  );
}

function placeKey({ path }: Conflict): string {
  return JSON.stringify(path);
}

/** Whether everything above a place is there. A map that is not is empty; a node, a note or a group that is not is gone. */
function hasPlace(document: PipelineDocument, path: readonly string[]): boolean {
  const [top, id] = path;
  if (top === 'samples' && id !== undefined && !Object.hasOwn(document.nodes, id)) return false;
  return path.slice(0, -1).every((_, index) => {
    const above = path.slice(0, index + 1);
    return isMap(above) || top === 'settings' || isObject(valueAt(document, above));
  });
}

function asValue(document: PipelineDocument): Value {
  return document as unknown as Json;
}

function isObject(value: Value): value is Readonly<Record<string, Json>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isEqual(one: Value, other: Value): boolean {
  if (one === other) return true;
  if (Array.isArray(one) && Array.isArray(other)) {
    const others = other as readonly Json[];
    return one.length === others.length && one.every((item, index) => isEqual(item as Json, others[index]));
  }
  if (!isObject(one) || !isObject(other)) return false;
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && isEqual(one[key], other[key]))
  );
}

/** Maps whose absence means the same as their being empty. */
function isMap(path: readonly string[]): boolean {
  const [top, second] = path;
  return path.length === 1 ? top !== 'name' : path.length === 2 && top === 'layout' && second !== undefined;
}

/** What is taken from one side as a whole: an edge with ends of two people, or a window half of each, nobody has drawn. */
function isField([top, second]: readonly string[], depth: number): boolean {
  if (top === 'nodes') return depth === 4;
  if (top === 'edges' || top === 'types' || top === 'samples') return depth === 2;
  return top === 'settings' && depth === 2 && second !== 'options';
}

function mergeValue(path: readonly string[], base: Value, ours: Value, theirs: Value, conflicts: Conflict[]): Value {
  if (isEqual(ours, theirs) || isEqual(base, theirs)) return ours;
  if (isEqual(base, ours)) return theirs;
  const isNewMap = base === undefined && isMap(path);
  if (!isField(path, path.length) && isObject(ours) && isObject(theirs) && (isObject(base) || isNewMap)) {
    const start = isObject(base) ? base : {};
    const keys = new Set([...Object.keys(ours), ...Object.keys(theirs), ...Object.keys(start)]);
    const made: [string, Json][] = [];
    for (const key of keys) {
      const own = (value: Readonly<Record<string, Json>>) => (Object.hasOwn(value, key) ? value[key] : undefined);
      const value = mergeValue([...path, key], own(start), own(ours), own(theirs), conflicts);
      if (value !== undefined) made.push([key, value]);
    }
    // "__proto__" may be the name of an option
    return Object.fromEntries(made);
  }
  if (path[0] === 'layout' && path[1] === 'positions') return ours ?? theirs;
  conflicts.push({ path, base, ours, theirs });
  return ours;
}

/** The edges that the other side has drawn, or led elsewhere. */
function edgesOfTheirs(merged: PipelineDocument, ours: PipelineDocument): readonly (readonly [string, PipelineEdge])[] {
  return Object.entries(merged.edges).filter(([id, edge]) => {
    const own = edgeIn(ours, id);
    return own === undefined || endsOf(own) !== endsOf(edge);
  });
}

function edgeIn(document: PipelineDocument, id: string): PipelineEdge | undefined {
  return Object.hasOwn(document.edges, id) ? document.edges[id] : undefined;
}

function endsOf({ from, to }: PipelineEdge): string {
  return JSON.stringify([from, to]);
}

/** Leaves out what both have connected, as when both delete what is in between: rows would come twice. */
function withoutDoubles(merged: PipelineDocument, ours: PipelineDocument, conflicts: Conflict[]): PipelineDocument {
  const theirs = new Map(edgesOfTheirs(merged, ours));
  const own = Object.entries(merged.edges).filter(([id]) => !theirs.has(id));
  const byEnds = new Map(own.map(([id, edge]) => [endsOf(edge), { id, edge }]));
  const doubles = new Set<string>();
  for (const [double, edge] of theirs) {
    const kept = byEnds.get(endsOf(edge));
    if (kept === undefined) continue;
    doubles.add(double);
    // how rows are dealt out is still to be asked
    if ((kept.edge.partitioning ?? null) !== (edge.partitioning ?? null))
      conflicts.push({ path: ['edges', kept.id], base: undefined, ours: valueIn(kept.edge), theirs: valueIn(edge) });
  }
  return doubles.size === 0 ? merged : { ...merged, edges: without(merged.edges, doubles) };
}

function valueIn(edge: PipelineEdge | undefined): Value {
  return edge as unknown as Value;
}

/** Leaves out the edges of theirs that make a circle with ours: each is a conflict. */
function withoutCircles(
  merged: PipelineDocument,
  base: PipelineDocument,
  ours: PipelineDocument,
  conflicts: Conflict[],
): PipelineDocument {
  if (ranks(merged).size === Object.keys(merged.nodes).length) return merged;
  const theirs = edgesOfTheirs(merged, ours);
  let joined = { ...merged, edges: without(merged.edges, new Set(theirs.map(([id]) => id))) };
  for (const [id, edge] of theirs) {
    const isCircle = ({ from, to }: PipelineEdge) => below(joined, to[0]).has(from[0]);
    const kept = [edge, edgeIn(ours, id)].find((each) => each !== undefined && !isCircle(each));
    if (kept !== undefined) joined = { ...joined, edges: { ...joined.edges, [id]: kept } };
    if (kept === edge) continue;
    const values = { base: valueIn(edgeIn(base, id)), ours: valueIn(kept), theirs: valueIn(edge) };
    conflicts.push({ path: ['edges', id], ...values });
  }
  return joined;
}

/** Gives nodes back that one side has deleted while the other side connected something to them: that is a conflict, too. */
function repaired(
  merged: PipelineDocument,
  ours: PipelineDocument,
  theirs: PipelineDocument,
  base: PipelineDocument,
  conflicts: Conflict[],
): PipelineDocument {
  const nodes = { ...merged.nodes };
  for (const [id, { from, to }] of Object.entries(merged.edges)) {
    for (const end of [from[0], to[0]]) {
      if (Object.hasOwn(nodes, end)) continue;
      const mine = ours.nodes[end];
      const other = theirs.nodes[end];
      const kept = mine ?? other;
      // an edge that both had goes with its node
      if (kept === undefined || isUntouched(id, base, ours, theirs)) continue;
      nodes[end] = kept;
      const value = (node: unknown) => node as Value;
      conflicts.push({
        path: ['nodes', end],
        base: value(base.nodes[end]),
        ours: value(mine),
        theirs: value(other),
        ...(mine === undefined ? { isBack: true } : {}),
      });
    }
  }
  const kept = { ...merged, nodes };
  conflicts.push(...lostMembers(kept, tidied(kept)));
  return tidied(kept);
}

/** The groups that lose nodes because each side has put them into another one: the first group holds until somebody chooses. */
function lostMembers(merged: PipelineDocument, tidy: PipelineDocument): readonly Conflict[] {
  const groups = Object.entries(merged.layout?.groups ?? {});
  return groups.flatMap(([id, group]): readonly Conflict[] => {
    const nodes = group.nodes.filter((node) => Object.hasOwn(merged.nodes, node));
    const left = tidy.layout?.groups?.[id];
    if (nodes.length === (left?.nodes.length ?? 0)) return [];
    const path = ['layout', 'groups', id];
    return left === undefined
      ? [{ path, base: undefined, ours: undefined, theirs: { ...group, nodes } }]
      : [{ path: [...path, 'nodes'], base: undefined, ours: left.nodes, theirs: nodes }];
  });
}

function isUntouched(id: string, base: PipelineDocument, ours: PipelineDocument, theirs: PipelineDocument): boolean {
  const edge = (document: PipelineDocument) => document.edges[id] as unknown as Value;
  const kept = edge(ours) ?? edge(theirs);
  return isEqual(edge(base), kept);
}

/** Drops what refers to nodes that are gone, and double memberships of groups: one group may go before the others. */
export function tidied(document: PipelineDocument, first?: string): PipelineDocument {
  if (faults(document).length === 0) return document;
  const has = (id: string) => Object.hasOwn(document.nodes, id);
  const loose = Object.entries(document.edges).filter(([, { from, to }]) => !has(from[0]) || !has(to[0]));
  const { positions, groups, colours } = document.layout ?? {};
  const gone = (map: Readonly<Record<string, unknown>>) => new Set(Object.keys(map).filter((id) => !has(id)));
  const taken = new Map<string, string>();
  const claim = (id: string) => {
    for (const node of groups?.[id]?.nodes ?? []) if (has(node) && !taken.has(node)) taken.set(node, id);
  };
  if (first !== undefined) claim(first);
  const all = Object.entries(groups ?? {});
  for (const [id] of all) claim(id);
  const members = all.map(([id, group]) => {
    const nodes = [...new Set(group.nodes)].filter((node) => taken.get(node) === id);
    return [id, nodes.length === group.nodes.length ? group : { ...group, nodes }] as const;
  });
  return {
    ...document,
    edges: without(document.edges, new Set(loose.map(([id]) => id))),
    layout: {
      ...document.layout,
      ...(positions === undefined ? {} : { positions: without(positions, gone(positions)) }),
      ...(colours === undefined ? {} : { colours: without(colours, gone(colours)) }),
      ...(groups === undefined
        ? {}
        : { groups: Object.fromEntries(members.filter(([, { nodes }]) => nodes.length > 0)) }),
    },
  };
}

function placed(tree: Value, path: readonly string[], value: Value): Value {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  const object = isObject(tree) ? tree : {};
  const inner = rest.length === 0 ? value : placed(object[key], rest, value);
  if (inner === undefined) return without(object, new Set([key]));
  return { ...object, [key]: inner };
}

/** A conflict's place in words: "Per auction: keys". */
export function placeOf(conflict: Conflict, document: PipelineDocument): string {
  const [top, id, ...rest] = conflict.path;
  if (top === 'nodes' && id !== undefined) {
    const side = [conflict.ours, conflict.theirs, conflict.base].find(isObject);
    const name = document.nodes[id]?.name ?? (typeof side?.name === 'string' ? side.name : id);
    const [param = '', ...below] = rest.filter((part) => part !== 'params');
    const field = [param.replaceAll('_', ' '), ...below].join(' › ');
    return field === '' ? name : `${name}: ${field}`;
  }
  if (top === 'edges' && id !== undefined) {
    const edge = (document.edges[id] ?? conflict.theirs ?? conflict.ours ?? conflict.base) as unknown as PipelineEdge;
    return t('Connection from {source} to {target}', {
      source: nameOf(document, edge.from[0]),
      target: nameOf(document, edge.to[0]),
    });
  }
  if (top === 'layout' && id === 'groups') {
    const [group = '', ...below] = rest;
    const side = [document.layout?.groups?.[group], conflict.ours, conflict.theirs].find((each) =>
      isObject(each as Value),
    );
    const name = (side as { readonly name?: Json } | undefined)?.name;
    return [t('Group {name}', { name: typeof name === 'string' ? name : group }), ...below].join(': ');
  }
  return conflict.path.join(' › ');
}
