/** Pipelines for tests: a small catalog, and numbers and ids from a seed. */

import type { NodeType, Port, Ports } from './catalog';
import { type MakeId, type PipelineDocument, emptyDocument } from './document';

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
