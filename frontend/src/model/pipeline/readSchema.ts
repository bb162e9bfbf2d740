/** What "Read schema" has found, beside what a node declares; taking it over is one change of the node. */

import { type Column, type ColumnChange, columnChanges } from './catalog';
import { type DeclaredColumn, typesOf } from './declarations';
import type { Json, Params, PipelineDocument } from './document';
import { changeNode } from './operations';

export interface FoundSchema {
  /** JSON pointer, below the node, of the parameter that declares the columns. */
  readonly field: string;
  readonly row: string;
  /** Name and type of each. */
  readonly columns: readonly (readonly string[])[];
  readonly fingerprint: string;
  /** Milliseconds since the epoch. */
  readonly read_at: number;
}

/** The columns that a node declares at a field, its own or those of a type of the pipeline; null: none yet. */
export function declaredColumns(document: PipelineDocument, id: string, field: string): readonly Column[] | null {
  const value = valueAt(document.nodes[id]?.params ?? {}, partsOf(field));
  const types = typesOf(document);
  const columns =
    typeof value === 'string'
      ? Object.hasOwn(types, value)
        ? types[value]
        : undefined
      : (value as readonly DeclaredColumn[] | undefined);
  if (columns === undefined || columns.length === 0) return null;
  return columns.map(([name, type]) => ({ name, type }));
}

/** What taking over the found columns changes. Without declared columns, all are added. */
export function proposedChanges(document: PipelineDocument, id: string, found: FoundSchema): readonly ColumnChange[] {
  return columnChanges(declaredColumns(document, id, found.field) ?? [], columnsOf(found));
}

/** Whether a node declares just what was found, in the same order. */
export function isAsFound(document: PipelineDocument, id: string, found: FoundSchema): boolean {
  const declared = declaredColumns(document, id, found.field);
  const columns = columnsOf(found);
  return (
    declared?.length === columns.length &&
    columns.every(({ name, type }, index) => declared[index]?.name === name && declared[index].type === type)
  );
}

/** The document in which a node declares what was found, and remembers where its columns come from. */
export function takenOver(document: PipelineDocument, id: string, found: FoundSchema): PipelineDocument {
  const { row, read_at, fingerprint } = found;
  return changeNode(document, id, (node) => ({
    ...node,
    params: placed(node.params, partsOf(found.field), found.columns) as Params,
    schema: { row, read_at, fingerprint },
  }));
}

function columnsOf({ columns }: FoundSchema): readonly Column[] {
  return columns.map(([name = '', type = '']) => ({ name, type }));
}

/** The names that lead to a field from the parameters: "/params/recording/type" → recording, type. */
function partsOf(field: string): readonly string[] {
  return field
    .split('/')
    .slice(2)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function valueAt(params: Params, parts: readonly string[]): Json | undefined {
  return parts.reduce<Json | undefined>((value, part) => {
    const object = objectOf(value);
    return Object.hasOwn(object, part) ? object[part] : undefined;
  }, params);
}

function placed(value: Json | undefined, [part, ...rest]: readonly string[], by: Json): Json {
  if (part === undefined) return by;
  const object = objectOf(value);
  return { ...object, [part]: placed(Object.hasOwn(object, part) ? object[part] : undefined, rest, by) };
}

function objectOf(value: Json | undefined): Params {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as Params) : {};
}
