/** Pipelines for tests: a small catalog, and random edits from a seed. */

import type { NodeType, Port, Ports } from './catalog';
import { copied, pasted } from './clipboard';
import * as declarations from './declarations';
import { type MakeId, type PipelineDocument, emptyDocument } from './document';
import * as operations from './operations';

export function port(name: string, many = false, more: Partial<Port> = {}): Port {
  return { name, label: name, many, help: '', takes_changelogs: true, changelog_option: '', ...more };
}

export function nodeType(type: string, inputs: string[], outputs: string[], more: Partial<NodeType> = {}): NodeType {
  return {
    type,
    version: 1,
    title: type,
    summary: '',
    icon: 'box',
    category: 'Rows',
    keywords: [],
    docs: '',
    schema: { type: 'object', properties: { text: { type: 'string', default: '' } } },
    ports: { inputs: inputs.map((name) => port(name)), outputs: outputs.map((name) => port(name)) },
    examples: [],
    is_parallel: true,
    has_operator: true,
    is_sink: outputs.length === 0,
    reads_schema: false,
    ...more,
  };
}

export const TYPES = {
  source: nodeType('source', [], ['out']),
  filter: nodeType('filter', ['in'], ['out']),
  split: nodeType('split', ['in'], ['yes', 'no']),
  join: nodeType('join', ['left', 'right'], ['out']),
  union: nodeType('union', [], [], { ports: { inputs: [port('in', true)], outputs: [port('out')] }, is_sink: false }),
  sink: nodeType('sink', ['in'], []),
};

export const catalog = { types: Object.values(TYPES), functions: [] };

export function portsIn(document: PipelineDocument): (id: string) => Ports {
  return (id) =>
    catalog.types.find(({ type }) => type === document.nodes[id]?.type)?.ports ?? { inputs: [], outputs: [] };
}

/** Numbers in [0, 1) from a seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function idsFrom(random: () => number): MakeId {
  return () =>
    Math.floor(random() * 2 ** 32)
      .toString(16)
      .padStart(8, '0');
}

/** A pipeline source → filter → sink, with the ids n1, n2, n3 and e1, e2. */
export function line(): PipelineDocument {
  const node = (type: string, name: string) => ({ type, type_version: 1, name, uid: `${name}-0`, params: {} });
  return {
    ...emptyDocument('Line'),
    nodes: { n1: node('source', 'Bids'), n2: node('filter', 'Dear'), n3: node('sink', 'Show') },
    edges: { e1: { from: ['n1', 'out'], to: ['n2', 'in'] }, e2: { from: ['n2', 'out'], to: ['n3', 'in'] } },
    layout: { positions: { n1: [0, 0], n2: [300, 0], n3: [600, 0] } },
  };
}

type Edit = (document: PipelineDocument, random: () => number, makeId: MakeId) => PipelineDocument;

function pick<T>(items: readonly T[], random: () => number): T | undefined {
  return items[Math.floor(random() * items.length)];
}

function someNodes(document: PipelineDocument, random: () => number): string[] {
  return Object.keys(document.nodes).filter(() => random() < 0.3);
}

const EDITS: readonly Edit[] = [
  (document, random, makeId) => {
    const type = pick(catalog.types, random) ?? TYPES.filter;
    return operations.addNode(document, type, [random() * 900, random() * 600], makeId).document;
  },
  (document, random, makeId) => {
    const ids = Object.keys(document.nodes);
    const from = pick(ids, random);
    const to = pick(ids, random);
    if (from === undefined || to === undefined) return document;
    const lookup = portsIn(document);
    const output = pick(lookup(from).outputs, random);
    const input = pick(lookup(to).inputs, random);
    if (output === undefined || input === undefined) return document;
    const ends = [
      [from, output.name],
      [to, input.name],
    ] as const;
    if (operations.refusal(document, ends[0], ends[1], lookup) !== null) return document;
    return operations.connect(document, ends[0], ends[1], makeId).document;
  },
  (document, random, makeId) => {
    const edge = pick(Object.keys(document.edges), random);
    const type = pick([TYPES.filter, TYPES.split, TYPES.join, TYPES.union], random) ?? TYPES.filter;
    return edge === undefined ? document : (operations.insertNew(document, edge, type, makeId)?.document ?? document);
  },
  (document, random, makeId) =>
    operations.remove(document, { nodes: someNodes(document, random).slice(0, 2), heals: random() < 0.7 }, makeId),
  (document, random, makeId) => {
    const edge = pick(Object.keys(document.edges), random);
    return edge === undefined ? document : operations.remove(document, { edges: [edge] }, makeId);
  },
  (document, random) => {
    const moved = someNodes(document, random).map((id) => [id, operations.snapped([random() * 900, random() * 600])]);
    return operations.moveNodes(document, Object.fromEntries(moved) as Record<string, readonly [number, number]>);
  },
  (document, random) => operations.renameNode(document, pick(Object.keys(document.nodes), random) ?? '', 'Name'),
  (document, random) => operations.toggleDisabled(document, someNodes(document, random)),
  (document, random) =>
    operations.setParam(
      document,
      pick(Object.keys(document.nodes), random) ?? '',
      'text',
      `${Math.floor(random() * 9)}`,
    ),
  (document, random, makeId) => {
    const clip = copied(document, someNodes(document, random), Object.keys(document.layout?.notes ?? {}).slice(0, 1));
    if (clip === null || Object.keys(document.nodes).length > 60) return document;
    return pasted(document, clip, [random() * 900, random() * 600], makeId).document;
  },
  (document, random, makeId) => operations.addNote(document, [random() * 900, 0], makeId).document,
  (document, random, makeId) =>
    operations.remove(document, { notes: [pick(Object.keys(document.layout?.notes ?? {}), random) ?? ''] }, makeId),
  (document, random, makeId) =>
    operations.addGroup(document, someNodes(document, random), makeId)?.document ?? document,
  (document, random) => operations.ungroup(document, pick(Object.keys(document.layout?.groups ?? {}), random) ?? ''),
  (document) => declarations.addParameter(document),
  (document, random) =>
    declarations.renameParameter(document, Math.floor(random() * 3), `p${Math.floor(random() * 9)}`),
  (document, random) => {
    const name = pick(declarations.parametersOf(document), random)?.name;
    const value = name === undefined ? undefined : { [declarations.REFERENCE]: name };
    return operations.setParam(document, pick(Object.keys(document.nodes), random) ?? '', 'text', value);
  },
  (document, random) =>
    declarations.changeParameter(document, Math.floor(random() * 3), { default: `${Math.floor(random() * 9)}` }),
  (document, random) => declarations.removeParameter(document, Math.floor(random() * 3)),
  (document) => declarations.addType(document).document,
  (document, random) => declarations.setCode(document, [`x = ${Math.floor(random() * 3)}`]),
  (document, random) => operations.setSetting(document, 'parallelism', 1 + Math.floor(random() * 4)),
  (document, random) => operations.renamePipeline(document, `Pipeline ${Math.floor(random() * 9)}`),
];

export function randomEdit(document: PipelineDocument, random: () => number, makeId: MakeId): PipelineDocument {
  return (pick(EDITS, random) ?? EDITS[0])?.(document, random, makeId) ?? document;
}

/** A pipeline of a few nodes, with the ids that the seed gives. */
export function randomPipeline(seed: number, edits = 20): PipelineDocument {
  const random = seeded(seed);
  const makeId = idsFrom(random);
  let document = emptyDocument('Random');
  for (let count = 0; count < edits; count += 1) document = randomEdit(document, random, makeId);
  return document;
}
