import { expect, test } from 'vitest';

import { topologyKey, topologyOfPlan, topologyOfVertices } from './graph';
import { vertex } from './testData';

const source = vertex('source');
const window = vertex('window', ['source']);

test('edges come from inputs; an unknown upstream is left out', () => {
  const graph = topologyOfVertices([source, vertex('x', ['source', 'nobody'])]);
  const edge = { id: 'source>x#0', source: 'source', target: 'x', shipStrategy: 'HASH', edge: 'source-x' };
  expect(graph.edges).toEqual([edge]);
});

test('an edge of a side output names it', () => {
  const inputs = [{ id: 'source', edge: '3', ship_strategy: 'REBALANCE', side_output: 'late' }];
  const { edges } = topologyOfVertices([source, { ...vertex('x'), inputs }]);
  expect(edges[0]?.shipStrategy).toBe('REBALANCE · late');
});

test('what moves does not change the key, a new edge does', () => {
  const before = topologyKey(topologyOfVertices([source, window]));
  const moved = { ...window, parallelism: 7, state: 'FAILED' as const };
  expect(topologyKey(topologyOfVertices([source, moved]))).toBe(before);
  expect(topologyKey(topologyOfVertices([source, vertex('window')]))).not.toBe(before);
});

test('two edges between the same vertices keep their own ids', () => {
  const { edges } = topologyOfVertices([source, vertex('self-join', ['source', 'source'])]);
  expect(new Set(edges.map((edge) => edge.id)).size).toBe(2);
});

test('a plan node without inputs is a source', () => {
  const node = { id: 'a', parallelism: 1, operator: '', operator_strategy: '', description: 'a' };
  expect(topologyOfPlan({ jid: '', name: '', type: 'STREAMING', nodes: [node] }).edges).toEqual([]);
});
