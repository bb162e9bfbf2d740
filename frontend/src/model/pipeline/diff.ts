/** The difference of two documents, by node and edge, as a person would say it; the server has it alike. Pure. */

import type { Json, PipelineDocument } from './document';
import { topologicalOrder } from './order';

export interface Change {
  /** JSON pointer below what has changed. */
  readonly pointer: string;
  /** Undefined: it is not there. */
  readonly before: Json | undefined;
  readonly after: Json | undefined;
}

export type Mark = 'added' | 'removed' | 'changed' | 'moved' | 'same';

export interface Compared {
  readonly id: string;
  readonly mark: Mark;
  readonly changes: readonly Change[];
}

export interface DocumentDiff {
  /** All of both documents: those of the newer one from its sources down, then those that are gone. */
  readonly nodes: readonly Compared[];
  readonly edges: readonly Compared[];
  /** Of all that belongs to no node and no edge, and is no layout. */
  readonly settings: readonly Change[];
}

const PARTS = ['name', 'description', 'settings', 'parameters', 'types', 'code', 'samples', 'tests'] as const;

export function diffOf(before: PipelineDocument, after: PipelineDocument): DocumentDiff {
  const nodes = compared(before.nodes, after.nodes, topologicalOrder(after), (id) => {
    const [one, other] = [before.layout?.positions?.[id], after.layout?.positions?.[id]];
    return one?.[0] !== other?.[0] || one?.[1] !== other?.[1];
  });
  const edges = compared(before.edges, after.edges, Object.keys(after.edges), () => false);
  const settings = PARTS.flatMap((part) => changesOf(asJson(before[part]), asJson(after[part]), `/${part}`));
  return { nodes, edges, settings };
}

/** How many things differ; what was moved only is none of them. */
export function countOf({ nodes, edges, settings }: DocumentDiff): number {
  const differs = ({ mark }: Compared) => mark !== 'same' && mark !== 'moved';
  return nodes.filter(differs).length + edges.filter(differs).length + settings.length;
}

function compared(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
  order: readonly string[],
  isMoved: (id: string) => boolean,
): readonly Compared[] {
  const found = order.map((id): Compared => {
    if (!Object.hasOwn(before, id)) return { id, mark: 'added', changes: [] };
    const changes = changesOf(asJson(before[id]), asJson(after[id]), '');
    return { id, mark: changes.length > 0 ? 'changed' : isMoved(id) ? 'moved' : 'same', changes };
  });
  const gone = Object.keys(before).filter((id) => !Object.hasOwn(after, id));
  return [...found, ...gone.map((id): Compared => ({ id, mark: 'removed', changes: [] }))];
}

function asJson(value: unknown): Json | undefined {
  return value as Json | undefined;
}

/** The values that differ, the smallest ones; lists of different length as a whole. */
export function changesOf(before: Json | undefined, after: Json | undefined, pointer: string): readonly Change[] {
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
    return names.flatMap((name) => {
      const place = `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
      return changesOf(member(before, name), member(after, name), place);
    });
  }
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    const others = after as readonly Json[];
    return (before as readonly Json[]).flatMap((item, index) => changesOf(item, others[index], `${pointer}/${index}`));
  }
  if (Array.isArray(before) && Array.isArray(after)) return [{ pointer, before, after }];
  // null stands for "not given"
  return (before ?? null) === (after ?? null) ? [] : [{ pointer, before, after }];
}

function isObject(value: Json | undefined): value is Readonly<Record<string, Json>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function member(object: Readonly<Record<string, Json>>, name: string): Json | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}
