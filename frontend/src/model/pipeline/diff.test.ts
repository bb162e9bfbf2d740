import { expect, test } from 'vitest';

import { countOf, diffOf } from './diff';
import { type PipelineDocument, emptyDocument } from './document';

const node = (name: string, params = {}) => ({ type: 'filter', type_version: 1, name, uid: name, params });

const before: PipelineDocument = {
  ...emptyDocument('Before'),
  settings: { parallelism: 2 },
  nodes: { a: node('A'), b: node('B', { condition: 'x > 1', 'a/b': [1, 2] }), c: node('C') },
  edges: { e1: { from: ['a', 'out'], to: ['b', 'in'] }, e2: { from: ['b', 'out'], to: ['c', 'in'] } },
  layout: { positions: { a: [0, 0], b: [1, 0], c: [2, 0] } },
};

const after: PipelineDocument = {
  ...before,
  settings: { parallelism: 3, state_backend: null },
  nodes: { a: node('A'), b: node('B', { condition: 'x > 2', 'a/b': [1, 2, 3] }), d: node('D') },
  edges: { e1: { from: ['a', 'out'], to: ['b', 'in'] }, e3: { from: ['b', 'out'], to: ['d', 'in'] } },
  layout: { positions: { a: [5, 0], b: [1, 0], d: [2, 0] } },
};

test('nodes are added, removed, changed or only moved', () => {
  const { nodes, edges, settings } = diffOf(before, after);
  expect(nodes.map(({ id, mark }) => [id, mark])).toEqual([
    ['a', 'moved'],
    ['b', 'changed'],
    ['d', 'added'],
    ['c', 'removed'],
  ]);
  expect(nodes[1]?.changes).toEqual([
    { pointer: '/params/a~1b', before: [1, 2], after: [1, 2, 3] },
    { pointer: '/params/condition', before: 'x > 1', after: 'x > 2' },
  ]);
  expect(edges.map(({ id, mark }) => [id, mark])).toEqual([
    ['e1', 'same'],
    ['e3', 'added'],
    ['e2', 'removed'],
  ]);
  // null means "not given"
  expect(settings).toEqual([{ pointer: '/settings/parallelism', before: 2, after: 3 }]);
  expect(countOf(diffOf(before, after))).toBe(6);
});

test('a document does not differ from itself', () => {
  expect(countOf(diffOf(before, before))).toBe(0);
});
