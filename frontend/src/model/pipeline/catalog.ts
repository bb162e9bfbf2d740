/** What the server says of node types and of the streams at their ports, and what follows from it for the page. */

import type { Json, Params, PipelineDocument, PipelineNode } from './document';

export interface Port {
  readonly name: string;
  readonly label: string;
  /** An input that takes any number of edges. */
  readonly many: boolean;
  readonly help: string;
  /** Of an input: whether it takes streams whose rows take earlier ones back. */
  readonly takes_changelogs: boolean;
  /** What to set so that an input which does not take them does; empty: nothing. */
  readonly changelog_option: string;
}

export interface Ports {
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
}

/** The part of JSON Schema that the forms of node types use. */
export interface FormSchema {
  readonly type?: string | readonly string[];
  readonly title?: string;
  readonly description?: string;
  readonly default?: Json;
  readonly enum?: readonly Json[];
  readonly const?: Json;
  readonly properties?: Readonly<Record<string, FormSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | FormSchema;
  readonly items?: boolean | FormSchema;
  readonly prefixItems?: readonly FormSchema[];
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly oneOf?: readonly FormSchema[];
  readonly format?: string;
  readonly 'x-widget'?: string;
  readonly 'x-port'?: string;
  /** Of a field of SQL: whether it may aggregate rows. */
  readonly 'x-aggregates'?: boolean;
}

export interface NodeType {
  readonly type: string;
  readonly version: number;
  readonly title: string;
  readonly summary: string;
  readonly icon: string;
  readonly category: string;
  readonly keywords: readonly string[];
  /** Markdown. */
  readonly docs: string;
  readonly schema: FormSchema;
  readonly ports: Ports;
  readonly examples: readonly { readonly title: string; readonly params: Params }[];
  readonly is_parallel: boolean;
  /** Whether parallelism, chaining and slot group are for the document to say; else the node's code does. */
  readonly has_operator: boolean;
  readonly is_sink: boolean;
  /** Whether the columns that such a node declares can be read from what it reads: files, or a table. */
  readonly reads_schema: boolean;
}

/** A function of SQL expressions. */
export interface SqlFunction {
  readonly name: string;
  /** What it takes and gives: "(x: number) → DOUBLE". */
  readonly detail: string;
  readonly is_aggregate: boolean;
}

export interface Catalog {
  readonly types: readonly NodeType[];
  readonly functions: readonly SqlFunction[];
}

export interface Column {
  readonly name: string;
  readonly type: string;
  readonly dtype?: string;
}

/** What is known of the stream that leaves a port. */
export interface Facts {
  /** Null: Python objects. */
  readonly columns: readonly Column[] | null;
  readonly changelog: 'append' | 'retract';
  readonly unique_key: readonly string[] | null;
  readonly event_time: boolean;
  readonly watermarks: boolean;
  readonly time_column: string | null;
  readonly bounded: boolean;
  readonly origin?: Readonly<Record<string, readonly [string, string]>>;
}

export type Severity = 'error' | 'incomplete' | 'warning' | 'info';

export interface PatchStep {
  readonly op: string;
  readonly path: string;
  readonly from?: string;
  readonly value?: Json;
}

export interface Fix {
  readonly title: string;
  readonly patch: readonly PatchStep[];
}

export interface Problem {
  readonly id: string;
  readonly node: string | null;
  readonly port: string | null;
  /** JSON pointer below the node: "/params/columns/0/1". */
  readonly field: string | null;
  readonly span: readonly [number, number] | null;
  readonly severity: Severity;
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly fixes: readonly Fix[];
  readonly related: readonly { readonly node: string; readonly field: string }[];
}

export interface NodeState {
  readonly ports: Ports;
  /** By output; null: not known yet. */
  readonly outputs: Readonly<Record<string, Facts | null>>;
  readonly is_active: boolean;
  /** One line of what the node does, by its type; empty: the type says nothing. */
  readonly label: string;
}

/** What validating a document gives. */
export interface Validation {
  /** Of the answer that said so; null: there was none yet. */
  readonly tag: string | null;
  readonly problems: readonly Problem[];
  readonly nodes: Readonly<Record<string, NodeState>>;
  readonly is_deployable: boolean;
}

export const NOTHING_KNOWN: Validation = { tag: null, problems: [], nodes: {}, is_deployable: false };
const NO_PORTS: Ports = { inputs: [], outputs: [] };
const SEVERITIES: readonly Severity[] = ['error', 'incomplete', 'warning', 'info'];

export function typeOf(catalog: Catalog, type: string): NodeType | undefined {
  return catalog.types.find((each) => each.type === type);
}

/**
 * The ports of a node: as the server saw them last, else as its type has them without parameters. Ports that edges end
 * at are among them in any case, so that no edge hangs in the air while parameters change.
 */
export function portsOf(
  document: PipelineDocument,
  id: string,
  type: NodeType | undefined,
  state: NodeState | undefined,
): Ports {
  return portsWith(endsAt(document.edges, id), type, state);
}

/** The same, for a node at which edges end as `endsAt` says. */
export function portsWith(ends: readonly string[], type: NodeType | undefined, state: NodeState | undefined): Ports {
  const known = state?.ports ?? type?.ports ?? NO_PORTS;
  const inputs = [...known.inputs];
  const outputs = [...known.outputs];
  const add = (ports: Port[], name: string) => {
    if (ports.some((port) => port.name === name)) return;
    ports.push({ name, label: name, many: false, help: '', takes_changelogs: true, changelog_option: '' });
  };
  for (const end of ends) add(end.startsWith('<') ? inputs : outputs, end.slice(1));
  return { inputs, outputs };
}

type Edges = PipelineDocument['edges'];
const NO_ENDS: readonly string[] = [];
const endsOfEdges = new WeakMap<Edges, ReadonlyMap<string, readonly string[]>>();

/** The ports of a node at which edges end: the name after "<" for an input, after ">" for an output. */
export function endsAt(edges: Edges, id: string): readonly string[] {
  let found = endsOfEdges.get(edges);
  if (found === undefined) {
    const made = new Map<string, string[]>();
    const add = (node: string, end: string) => {
      const ends = made.get(node);
      if (ends === undefined) made.set(node, [end]);
      else if (!ends.includes(end)) ends.push(end);
    };
    for (const { from, to } of Object.values(edges)) {
      add(from[0], `>${from[1]}`);
      add(to[0], `<${to[1]}`);
    }
    found = made;
    endsOfEdges.set(edges, found);
  }
  return found.get(id) ?? NO_ENDS;
}

/** Node types whose title, keywords, summary or name have all the words, best first. */
export function searchTypes(catalog: Catalog, text: string): readonly NodeType[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return catalog.types;
  const scored = catalog.types.flatMap((type) => {
    let score = 0;
    for (const word of words) {
      const best = scoreOf(type, word);
      if (best === 0) return [];
      score += best;
    }
    return [{ type, score }];
  });
  return scored.sort((one, other) => other.score - one.score).map(({ type }) => type);
}

function scoreOf({ title, type, keywords, summary, category }: NodeType, word: string): number {
  const low = title.toLowerCase();
  if (low.startsWith(word)) return 5;
  if (low.includes(word)) return 4;
  if (keywords.some((keyword) => keyword.toLowerCase().includes(word))) return 3;
  if (type.includes(word) || category.toLowerCase().includes(word)) return 2;
  return summary.toLowerCase().includes(word) ? 1 : 0;
}

/** The parameters that a new node begins with: the defaults of its schema. */
export function defaultParams(schema: FormSchema): Params {
  const found: Record<string, Json> = {};
  for (const [name, part] of Object.entries(schema.properties ?? {})) {
    if (part.default !== undefined) found[name] = part.default;
  }
  return found;
}

/** A new node of a type. Its name is still to be made free. */
export function newNode(type: NodeType): Omit<PipelineNode, 'uid'> {
  return {
    type: type.type,
    type_version: type.version,
    name: type.title,
    params: defaultParams(type.schema),
    // as the server completes it: a merge compares both
    parallelism: null,
    max_parallelism: null,
    slot_group: null,
    chaining: 'always',
    disabled: false,
  };
}

/** The worst severity among problems; null without any. */
export function worst(problems: readonly Problem[]): Severity | null {
  return SEVERITIES.find((severity) => problems.some((problem) => problem.severity === severity)) ?? null;
}

export function bySeverity(problems: readonly Problem[]): readonly Problem[] {
  return [...problems].sort((one, other) => SEVERITIES.indexOf(one.severity) - SEVERITIES.indexOf(other.severity));
}

/** What the stream that enters an input carries; null: nothing is known, or nothing is connected. */
export function inputFacts(
  document: PipelineDocument,
  validation: Validation,
  id: string,
  port: string | null = null,
): Facts | null {
  const edge = Object.values(document.edges).find(({ to }) => to[0] === id && (port === null || to[1] === port));
  return edge === undefined ? null : (validation.nodes[edge.from[0]]?.outputs[edge.from[1]] ?? null);
}

export interface ColumnChange {
  readonly column: Column;
  readonly change: 'same' | 'added' | 'dropped' | 'type';
  readonly before?: string;
}

/** The columns of a stream beside those of the stream before it. */
export function columnChanges(before: readonly Column[] | null, after: readonly Column[]): readonly ColumnChange[] {
  if (before === null) return after.map((column) => ({ column, change: 'same' }));
  const old = new Map(before.map((column) => [column.name, column]));
  const names = new Set(after.map(({ name }) => name));
  const kept = after.map((column): ColumnChange => {
    const was = old.get(column.name);
    if (was === undefined) return { column, change: 'added' };
    return was.type === column.type ? { column, change: 'same' } : { column, change: 'type', before: was.type };
  });
  const dropped = before.filter(({ name }) => !names.has(name));
  return [...kept, ...dropped.map((column): ColumnChange => ({ column, change: 'dropped' }))];
}
