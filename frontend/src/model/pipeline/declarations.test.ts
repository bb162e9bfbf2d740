import { describe, expect, it } from 'vitest';

import type { FormSchema, NodeType } from './catalog';
import * as declarations from './declarations';
import type { Json, PipelineDocument } from './document';
import { line, nodeType } from './testPipelines';

const COLUMNS: FormSchema = { type: ['array', 'string'], 'x-widget': 'schema' };
const SCHEMA: FormSchema = {
  properties: {
    type: COLUMNS,
    text: { type: 'string' },
    recording: { oneOf: [{ properties: { kind: { const: 'files' }, type: COLUMNS } }] },
    sides: { type: 'array', items: { properties: { tag: { type: 'string' }, type: COLUMNS } } },
  },
};
const TYPES: Readonly<Record<string, NodeType>> = {
  source: nodeType('source', [], ['out'], { schema: SCHEMA }),
  filter: nodeType('filter', ['in'], ['out'], { schema: SCHEMA }),
};
const typeOf = (type: string) => TYPES[type];

function withParams(document: PipelineDocument, id: string, params: Record<string, Json>): PipelineDocument {
  const node = document.nodes[id];
  if (node === undefined) throw new Error(id);
  return { ...document, nodes: { ...document.nodes, [id]: { ...node, params } } };
}

function withParameter(name: string, value: number | null): PipelineDocument {
  const parameters = [{ name, type: 'long', default: value, help: '' }];
  const used = withParams({ ...line(), parameters }, 'n2', { least: { $parameter: name }, keys: ['a'] });
  return withParams(used, 'n3', { rows: [[{ deep: { $parameter: name } }], { $parameter: 'other' }] });
}

describe('parameters', () => {
  it('have names of their own from the start', () => {
    const one = declarations.addParameter(line());
    const again = declarations.addParameter(one);
    expect(declarations.parametersOf(again).map(({ name }) => name)).toEqual(['parameter_1', 'parameter_2']);
    expect(declarations.parametersOf(line())).toEqual([]);
  });

  it('are renamed in all nodes that use them, and nodes that do not are left as they are', () => {
    const before = withParameter('least', 10);
    const after = declarations.renameParameter(before, 0, 'min_price');
    expect(after.nodes.n2?.params).toEqual({ least: { $parameter: 'min_price' }, keys: ['a'] });
    expect(after.nodes.n3?.params).toEqual({
      rows: [[{ deep: { $parameter: 'min_price' } }], { $parameter: 'other' }],
    });
    expect(after.nodes.n1).toBe(before.nodes.n1);
    expect(after.nodes.n2?.params.keys).toBe(before.nodes.n2?.params.keys);
    expect(declarations.usersOf(after, 'min_price')).toEqual(['n2', 'n3']);
    expect(declarations.usersOf(after, 'least')).toEqual([]);
  });

  it('keep their name where the new one is refused', () => {
    const two = declarations.addParameter(withParameter('least', 10));
    for (const name of ['', '1st', 'a b', 'parameter_2', 'x'.repeat(101)]) {
      expect(declarations.nameRefusal(two, 0, name)).not.toBeNull();
      expect(declarations.renameParameter(two, 0, name)).toBe(two);
    }
    expect(declarations.nameRefusal(two, 0, 'least')).toBeNull();
  });

  it('leave their value where they were used', () => {
    const after = declarations.removeParameter(withParameter('least', 10), 0);
    expect(after.nodes.n2?.params.least).toBe(10);
    expect(after.nodes.n3?.params).toEqual({ rows: [[{ deep: 10 }], { $parameter: 'other' }] });
    expect(declarations.parametersOf(after)).toEqual([]);
  });

  it('without a value leave the reference, which is a problem then', () => {
    const before = withParameter('least', null);
    expect(declarations.removeParameter(before, 0).nodes).toBe(before.nodes);
  });

  it('keep the value that a new type can have', () => {
    const retyped = (value: string | number | boolean | null, type: declarations.ParameterType) => {
      const document = { ...line(), parameters: [{ name: 'a', type: 'string', default: value }] };
      return declarations.parametersOf(declarations.retypeParameter(document, 0, type))[0]?.default;
    };
    expect(retyped(10, 'double')).toBe(10);
    expect(retyped(1.5, 'long')).toBeNull();
    expect(retyped('10', 'long')).toBe(10);
    expect(retyped('', 'double')).toBeNull();
    expect(retyped('ten', 'long')).toBeNull();
    expect(retyped('true', 'boolean')).toBe(true);
    expect(retyped(null, 'boolean')).toBe(false);
    expect(retyped(null, 'long')).toBeNull();
    expect(retyped(true, 'long')).toBeNull();
  });

  it('that are set to what they are change nothing', () => {
    const document = withParameter('least', 10);
    expect(declarations.changeParameter(document, 0, { default: 10 })).toBe(document);
    expect(declarations.changeParameter(document, 7, { default: 1 })).toBe(document);
    expect(declarations.retypeParameter(document, 0, 'long')).toBe(document);
    expect(declarations.parametersOf(declarations.changeParameter(document, 0, { default: 11 }))[0]?.default).toBe(11);
  });

  it('fit fields of their type', () => {
    const all = declarations.PARAMETER_TYPES.map((type) => ({ name: type, type }));
    const names = (schema: FormSchema) => declarations.fitting(schema, all).map(({ name }) => name);
    expect(names({ type: 'string' })).toEqual(['string']);
    expect(names({ type: ['integer', 'null'] })).toEqual(['long']);
    expect(names({ type: 'number' })).toEqual(['long', 'double']);
    expect(names({ type: 'boolean' })).toEqual(['boolean']);
    expect(names({ enum: ['a', 'b'] })).toEqual(['string']);
    expect(names({ type: 'array' })).toEqual([]);
    expect(names({ oneOf: [] })).toEqual([]);
  });

  it('are told from values that only look like them', () => {
    expect(declarations.referred({ $parameter: 'a' })).toBe('a');
    expect(declarations.referred({ $parameter: 'a', more: 1 })).toBeNull();
    expect(declarations.referred({ $parameter: 1 })).toBeNull();
    expect(declarations.referred(['$parameter'])).toBeNull();
    expect(declarations.referred(null)).toBeNull();
  });
});

const ORDER = [
  ['id', 'long'],
  ['item', 'string'],
] as const;

function withType(): PipelineDocument {
  const declared = declarations.addType(line(), ORDER);
  const used = withParams(declared.document, 'n1', {
    type: 'type',
    text: 'type',
    recording: { kind: 'files', type: 'type' },
    sides: [
      { tag: 'type', type: 'type' },
      { tag: 'b', type: [['x', 'long']] },
    ],
  });
  return withParams(used, 'n3', { type: 'type' });
}

describe('types', () => {
  it('are renamed in fields for columns, and in no other text', () => {
    const before = withType();
    const after = declarations.renameType(before, 'type', 'an/order', typeOf);
    expect(Object.keys(after.types ?? {})).toEqual(['an/order']);
    expect(after.nodes.n1?.params).toEqual({
      type: 'an/order',
      text: 'type',
      recording: { kind: 'files', type: 'an/order' },
      sides: [
        { tag: 'type', type: 'an/order' },
        { tag: 'b', type: [['x', 'long']] },
      ],
    });
    // nothing is known of the fields of a type that is not installed
    expect(after.nodes.n3).toBe(before.nodes.n3);
    expect(declarations.typeUsersOf(after, 'an/order', typeOf)).toEqual(['n1']);
    expect(declarations.pointerPart('an/order')).toBe('an~1order');
  });

  it('keep their order and their name where the new one is refused', () => {
    const two = declarations.addType(withType()).document;
    expect(Object.keys(two.types ?? {})).toEqual(['type', 'type 2']);
    expect(Object.keys(declarations.renameType(two, 'type', 'z', typeOf).types ?? {})).toEqual(['z', 'type 2']);
    expect(declarations.renameType(two, 'type', 'type 2', typeOf)).toBe(two);
    expect(declarations.renameType(two, 'type', ' ', typeOf)).toBe(two);
  });

  it('leave their columns where they were named', () => {
    const after = declarations.removeType(withType(), 'type', typeOf);
    expect(after.nodes.n1?.params.type).toEqual(ORDER);
    expect(after.nodes.n1?.params.text).toBe('type');
    expect(after.types).toEqual({});
    expect(declarations.removeType(after, 'type', typeOf)).toBe(after);
  });

  it('get columns', () => {
    const before = withType();
    const after = declarations.setTypeColumns(before, 'type', [['a', 'long']]);
    expect(declarations.typesOf(after)).toEqual({ type: [['a', 'long']] });
    expect(declarations.setTypeColumns(before, 'nothing', [])).toBe(before);
  });
});

describe('shared Python', () => {
  it('is not there once it is empty, and changes nothing where it is the same', () => {
    const one = declarations.setCode(line(), ['import json']);
    expect(one.code).toEqual(['import json']);
    expect(declarations.setCode(one, ['import json'])).toBe(one);
    expect(declarations.setCode(one, ['']).code).toEqual([]);
    const none = line();
    expect(declarations.setCode(none, [''])).toBe(none);
  });
});
