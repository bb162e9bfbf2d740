/**
 * What a pipeline declares for its nodes: parameters, row types under names, and shared Python. A rename goes through all
 * nodes that use the name, and what is removed leaves its value or its columns where it was used: the job stays the same.
 */

import { t } from '../../texts/t';
import type { FormSchema, NodeType } from './catalog';
import { type Json, type Params, type PipelineDocument, type PipelineNode, freeName, without } from './document';
import { chosenBranch, kindOf } from './forms';

export type ParameterType = 'string' | 'long' | 'double' | 'boolean';

export interface Parameter {
  readonly name: string;
  readonly type: ParameterType;
  /** Null, or not there: it has no value, and nothing may use it. */
  readonly default?: string | number | boolean | null;
  readonly help?: string;
}

export const PARAMETER_TYPES: readonly ParameterType[] = ['string', 'long', 'double', 'boolean'];
export const REFERENCE = '$parameter';
const MAX_NAME = 100;

// --- parameters -----------------------------------------------------------------------------------------------------

export function parametersOf(document: Pick<PipelineDocument, 'parameters'>): readonly Parameter[] {
  return (document.parameters ?? []) as unknown as readonly Parameter[];
}

function withParameters(document: PipelineDocument, parameters: readonly Parameter[]): PipelineDocument {
  return { ...document, parameters: parameters as unknown as readonly Json[] };
}

/** Adds a parameter of text without a value. */
export function addParameter(document: PipelineDocument): PipelineDocument {
  const old = parametersOf(document);
  let number = old.length + 1;
  while (old.some(({ name }) => name === `parameter_${number}`)) number += 1;
  const made: Parameter = { name: `parameter_${number}`, type: 'string', default: null, help: '' };
  return withParameters(document, [...old, made]);
}

export function changeParameter(
  document: PipelineDocument,
  index: number,
  change: Partial<Omit<Parameter, 'name'>>,
): PipelineDocument {
  const old = parametersOf(document);
  const parameter = old[index];
  if (parameter === undefined) return document;
  const keys = Object.keys(change) as (keyof typeof change)[];
  if (keys.every((key) => parameter[key] === change[key])) return document;
  return withParameters(document, old.with(index, { ...parameter, ...change }));
}

/** Gives a parameter another type; its value becomes one of it if that can be said, else it has none. */
export function retypeParameter(document: PipelineDocument, index: number, type: ParameterType): PipelineDocument {
  const parameter = parametersOf(document)[index];
  if (parameter === undefined || parameter.type === type) return document;
  return changeParameter(document, index, { type, default: converted(parameter.default ?? null, type) });
}

function converted(value: string | number | boolean | null, type: ParameterType): string | number | boolean | null {
  // a switch has no third state
  if (value === null) return type === 'boolean' ? false : null;
  if (type === 'string') return String(value);
  if (type === 'boolean') return value === true || value === 'true' ? true : value === 'false' ? false : null;
  const number = typeof value === 'boolean' || String(value).trim() === '' ? Number.NaN : Number(value);
  return Number.isFinite(number) && (type === 'double' || Number.isSafeInteger(number)) ? number : null;
}

/** Why a parameter cannot have this name; null if it can. */
export function nameRefusal(document: PipelineDocument, index: number, name: string): string | null {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return t('A name has letters, digits and _, and begins with no digit');
  if (name.length > MAX_NAME) return t('A name has at most {count} characters', { count: MAX_NAME });
  const isTaken = parametersOf(document).some((other, each) => each !== index && other.name === name);
  return isTaken ? t('Another parameter has this name') : null;
}

/** Renames a parameter in its declaration and in all nodes. A name that is refused changes nothing. */
export function renameParameter(document: PipelineDocument, index: number, name: string): PipelineDocument {
  const old = parametersOf(document);
  const parameter = old[index];
  if (parameter === undefined || parameter.name === name || nameRefusal(document, index, name) !== null)
    return document;
  const renamed = withParameters(document, old.with(index, { ...parameter, name }));
  return withParams(renamed, (value) => (referred(value) === parameter.name ? { [REFERENCE]: name } : undefined));
}

/** Removes a parameter; its value stands where it was used. Without a value, the nodes keep their reference. */
export function removeParameter(document: PipelineDocument, index: number): PipelineDocument {
  const old = parametersOf(document);
  const parameter = old[index];
  if (parameter === undefined) return document;
  const left = withParameters(document, old.toSpliced(index, 1));
  const value = parameter.default ?? null;
  if (value === null) return left;
  return withParams(left, (each) => (referred(each) === parameter.name ? value : undefined));
}

/** The parameter that a value of a node stands for; null if it is a value of its own. */
export function referred(value: Json | undefined): string | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const object = value as Params;
  const name = object[REFERENCE];
  return typeof name === 'string' && Object.keys(object).length === 1 ? name : null;
}

/** The nodes that use a parameter. */
export function usersOf(document: PipelineDocument, name: string): readonly string[] {
  const uses = (value: Json): boolean => {
    if (referred(value) === name) return true;
    return typeof value === 'object' && value !== null && Object.values(value).some(uses);
  };
  return Object.keys(document.nodes).filter((id) => uses(document.nodes[id]?.params ?? {}));
}

/** The parameters that may stand in a field, by its schema. */
export function fitting(schema: FormSchema, parameters: readonly Parameter[]): readonly Parameter[] {
  if (schema.oneOf !== undefined) return [];
  const kind = schema.enum === undefined ? kindOf(schema) : 'string';
  const types: Readonly<Record<string, readonly ParameterType[]>> = {
    string: ['string'],
    integer: ['long'],
    number: ['long', 'double'],
    boolean: ['boolean'],
  };
  return parameters.filter(({ type }) => types[kind]?.includes(type) === true);
}

/** Replaces values anywhere in the parameters of all nodes; what the function gives undefined for stays. */
function withParams(document: PipelineDocument, replace: (value: Json) => Json | undefined): PipelineDocument {
  const walk = (value: Json): Json => {
    const found = replace(value);
    if (found !== undefined) return found;
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) {
      const items = value as readonly Json[];
      const made = items.map(walk);
      return made.every((item, index) => item === items[index]) ? items : made;
    }
    const entries = Object.entries(value as Params);
    const made = entries.map(([name, item]) => [name, walk(item)] as const);
    return made.every(([, item], index) => item === entries[index]?.[1]) ? value : Object.fromEntries(made);
  };
  return withNodes(document, (node) => {
    const params = walk(node.params) as Params;
    return params === node.params ? node : { ...node, params };
  });
}

function withNodes(document: PipelineDocument, change: (node: PipelineNode) => PipelineNode): PipelineDocument {
  const entries = Object.entries(document.nodes);
  const made = entries.map(([id, node]) => [id, change(node)] as const);
  const isSame = made.every(([id, node]) => node === document.nodes[id]);
  return isSame ? document : { ...document, nodes: Object.fromEntries(made) };
}

// --- types ----------------------------------------------------------------------------------------------------------

/** Name and type of a column. */
export type DeclaredColumn = readonly [string, string];

export function typesOf(
  document: Pick<PipelineDocument, 'types'>,
): Readonly<Record<string, readonly DeclaredColumn[]>> {
  const types = (document.types ?? {}) as unknown as Readonly<Record<string, { columns: readonly DeclaredColumn[] }>>;
  return Object.fromEntries(Object.entries(types).map(([name, { columns }]) => [name, columns]));
}

function withTypes(document: PipelineDocument, types: Readonly<Record<string, Json>>): PipelineDocument {
  return { ...document, types };
}

export interface TypeMade {
  readonly document: PipelineDocument;
  readonly name: string;
}

/** Declares a type with these columns. */
export function addType(document: PipelineDocument, columns: readonly DeclaredColumn[] = []): TypeMade {
  const types = document.types ?? {};
  const name = freeName('type', new Set(Object.keys(types)));
  const first: readonly DeclaredColumn[] = [['', 'string']];
  return {
    document: withTypes(document, { ...types, [name]: { columns: columns.length > 0 ? columns : first } }),
    name,
  };
}

export function setTypeColumns(document: PipelineDocument, name: string, columns: Json): PipelineDocument {
  const types = document.types ?? {};
  if (!Object.hasOwn(types, name)) return document;
  return withTypes(document, { ...types, [name]: { columns } });
}

/** Why a type cannot have this name; null if it can. */
export function typeNameRefusal(document: PipelineDocument, old: string, name: string): string | null {
  if (name.trim() === '') return t('A type has a name');
  const isTaken = name !== old && Object.hasOwn(document.types ?? {}, name);
  return isTaken ? t('Another type has this name') : null;
}

/** Renames a type in its declaration and in all nodes; the order of types stays. */
export function renameType(
  document: PipelineDocument,
  old: string,
  name: string,
  typeOf: (type: string) => NodeType | undefined,
): PipelineDocument {
  const types = document.types ?? {};
  if (name === old || !Object.hasOwn(types, old) || typeNameRefusal(document, old, name) !== null) return document;
  const renamed = Object.fromEntries(Object.entries(types).map(([each, type]) => [each === old ? name : each, type]));
  return withTypeUses(withTypes(document, renamed), old, name, typeOf);
}

/** Removes a type; nodes that named it declare its columns themselves. */
export function removeType(
  document: PipelineDocument,
  name: string,
  typeOf: (type: string) => NodeType | undefined,
): PipelineDocument {
  const columns = typesOf(document)[name];
  if (columns === undefined) return document;
  const left = withTypes(document, without(document.types ?? {}, new Set([name])));
  return withTypeUses(left, name, columns, typeOf);
}

/** The nodes that name a type. */
export function typeUsersOf(
  document: PipelineDocument,
  name: string,
  typeOf: (type: string) => NodeType | undefined,
): readonly string[] {
  const other = withTypeUses(document, name, null, typeOf);
  return Object.keys(document.nodes).filter((id) => document.nodes[id] !== other.nodes[id]);
}

function withTypeUses(
  document: PipelineDocument,
  name: string,
  value: Json,
  typeOf: (type: string) => NodeType | undefined,
): PipelineDocument {
  return withNodes(document, (node) => {
    const params = replaced(typeOf(node.type)?.schema ?? {}, node.params, name, value) as Params;
    return params === node.params ? node : { ...node, params };
  });
}

/** A value in which fields for columns have another value in place of the name of a type. */
function replaced(schema: FormSchema, value: Json, name: string, by: Json): Json {
  if (isTypeField(schema)) return value === name ? by : value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const items = value as readonly Json[];
    const part = (index: number) => schema.prefixItems?.[index] ?? schema.items;
    const made = items.map((item, index) => {
      const own = part(index);
      return typeof own === 'object' ? replaced(own, item, name, by) : item;
    });
    return made.every((item, index) => item === items[index]) ? items : made;
  }
  const branches = schema.oneOf;
  const { properties = {} } = (branches === undefined ? schema : branches[chosenBranch(branches, value)]) ?? {};
  const entries = Object.entries(value as Params);
  const made = entries.map(([key, item]) => {
    const own = Object.hasOwn(properties, key) ? properties[key] : undefined;
    return [key, own === undefined ? item : replaced(own, item, name, by)] as const;
  });
  return made.every(([, item], index) => item === entries[index]?.[1]) ? value : Object.fromEntries(made);
}

/** Whether a field takes columns, or the name of a type. */
export function isTypeField(schema: FormSchema): boolean {
  return schema['x-widget'] === 'schema' && Array.isArray(schema.type) && schema.type.includes('string');
}

// --- shared Python --------------------------------------------------------------------------------------------------

/** Sets the shared Python; a single empty line is none. */
export function setCode(document: PipelineDocument, lines: readonly string[]): PipelineDocument {
  const code = lines.every((line) => line === '') && lines.length <= 1 ? [] : lines;
  const old = document.code ?? [];
  if (code.length === old.length && code.every((line, index) => line === old[index])) return document;
  return { ...document, code };
}

/** A name as a part of a JSON pointer. */
export function pointerPart(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}
