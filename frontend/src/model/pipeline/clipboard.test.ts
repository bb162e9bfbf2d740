import { expect, test } from 'vitest';

import { copied, pasted, readClip, readTable } from './clipboard';
import { faults } from './document';
import { idsFrom, line, seeded } from './testPipelines';

const makeId = idsFrom(seeded(3));

test('a copy takes the nodes with the edges between them, and a paste gives them ids, names and uids of their own', () => {
  const clip = readClip(JSON.stringify(copied(line(), ['n1', 'n2'])));
  expect(clip).not.toBeNull();
  if (clip === null) return;
  const { document, nodes } = pasted(line(), clip, [50, 400], makeId);
  expect(nodes).toHaveLength(2);
  expect(Object.keys(document.nodes)).toHaveLength(5);
  expect(Object.keys(document.edges)).toHaveLength(3);
  expect(document.nodes[nodes[0] ?? '']?.name).toBe('Bids 2');
  expect(document.layout?.positions?.[nodes[1] ?? '']).toEqual([350, 400]);
  expect(faults(document)).toEqual([]);
  const again = pasted(document, clip, [50, 800], makeId);
  expect(again.document.nodes[again.nodes[0] ?? '']?.name).toBe('Bids 3');
  expect(faults(again.document)).toEqual([]);
});

test.each(['', 'hello', '{}', '{"format": "tidemark.nodes"}', '["tidemark.nodes"]'])('%j is no clip', (text) => {
  expect(readClip(text)).toBeNull();
});

test('a clip with something else in a place of a node is none', () => {
  const clip = { format: 'tidemark.nodes', version: 1, nodes: { a: 3 }, edges: [], positions: {}, notes: [] };
  expect(readClip(JSON.stringify(clip))).toBeNull();
  expect(readClip(JSON.stringify({ ...clip, nodes: {} }))).toBeNull();
});

test('a clip whose nodes the server would refuse is none, and what nodes cannot have is left out', () => {
  const clip = copied(line(), ['n1', 'n2']);
  const node = clip?.nodes.n1;
  const withNode = (change: object) =>
    readClip(JSON.stringify({ ...clip, nodes: { ...clip?.nodes, n1: { ...node, ...change } } }));
  const refused: readonly object[] = [
    { name: ' ' },
    { type: '' },
    { parallelism: 'x' },
    { parallelism: 32_769 },
    { type_version: 0 },
    { chaining: 'sometimes' },
    { disabled: 1 },
    { slot_group: '' },
    { schema: { row: 3 } },
    { name: 'a\u0000b' },
    { params: { text: '\ud800' } },
  ];
  for (const change of refused) expect(withNode(change)).toBeNull();
  expect(withNode({ name: 'back\\u0000slash 🚀' })?.nodes.n1?.name).toBe('back\\u0000slash 🚀');
  expect(withNode({ more: 1 })?.nodes.n1).not.toHaveProperty('more');
  expect(readClip(JSON.stringify({ ...clip, positions: {} }))).toBeNull();
});

test('CSV becomes typed columns; cells may be quoted or empty', () => {
  expect(readTable('id,item,price,at\n1,"pen, ""blue""",2.5,2024-01-01 10:00:00\n2,,3,2024-01-02 10:00:00')).toEqual({
    columns: [
      ['id', 'long'],
      ['item', 'string'],
      ['price', 'double'],
      ['at', 'sql_timestamp'],
    ],
    rows: [
      [1, 'pen, "blue"', 2.5, '2024-01-01 10:00:00'],
      [2, null, 3, '2024-01-02 10:00:00'],
    ],
  });
});

test('JSON rows and lines become columns; those of one row only are null elsewhere', () => {
  const table = {
    columns: [
      ['a', 'long'],
      ['b', 'boolean'],
    ],
    rows: [
      [1, null],
      [2, true],
    ],
  };
  expect(readTable('[{"a": 1}, {"a": 2, "b": true}]')).toEqual(table);
  expect(readTable('{"a": 1}\n{"a": 2, "b": true}\n')).toEqual(table);
});

test.each(['one line', 'a,b\n1', 'Dear Anna,\nhow are you', '[1, 2]', '{"a": ', 'x\n1\n2'])(
  '%j is no table',
  (text) => {
    expect(readTable(text)).toBeNull();
  },
);
