import { expect, test } from 'vitest';

import { edgeRate, layoutInput, topologyKey, topologyOfPlan, topologyOfVertices } from './graph';
import { metrics, vertex } from './testData';

const source = vertex('source', [], { metrics: metrics({ records_out_per_second: 90 }) });
const window = vertex('window', ['source'], { metrics: metrics({ records_in_per_second: 80 }) });
const late = vertex('late', ['source'], { metrics: metrics({ records_in_per_second: 7 }) });
const union = vertex('union', ['window', 'source']);

test('edges come from inputs; an unknown upstream is left out', () => {
  const graph = topologyOfVertices([source, vertex('x', ['source', 'nobody'])]);
  expect(graph.edges).toEqual([{ id: 'source>x#0', source: 'source', target: 'x', shipStrategy: 'HASH' }]);
});

test('moving numbers do not change the key, a new edge does', () => {
  const before = topologyKey(topologyOfVertices([source, window]));
  const moved = { ...window, metrics: metrics({ busy: 1000 }), state: 'FAILED' as const };
  expect(topologyKey(topologyOfVertices([source, moved]))).toBe(before);
  expect(topologyKey(topologyOfVertices([source, vertex('window')]))).not.toBe(before);
});

test('an edge into a vertex with one input carries what that vertex reads', () => {
  const { edges } = topologyOfVertices([source, window, late]);
  const vertices = new Map([source, window, late].map((v) => [v.id, v]));
  expect(edges.map((edge) => edgeRate(edge, vertices, edges))).toEqual([80, 7]);
});

test('an edge whose records cannot be told apart has no rate', () => {
  const all = [source, window, union];
  const { edges } = topologyOfVertices(all);
  const vertices = new Map(all.map((v) => [v.id, v]));
  const into = (from: string) => edges.find((edge) => edge.target === 'union' && edge.source === from);
  const rates = ['window', 'source'].map((from) => {
    const edge = into(from);
    return edge === undefined ? undefined : edgeRate(edge, vertices, edges);
  });
  expect(rates).toEqual([0, null]);
});

test('two edges between the same vertices keep their own ids', () => {
  const { edges } = topologyOfVertices([source, vertex('self-join', ['source', 'source'])]);
  expect(new Set(edges.map((edge) => edge.id)).size).toBe(2);
});

test('the layout gets every node with its size and every edge', () => {
  const input = layoutInput(topologyOfVertices([source, window]), 240, 100, 130);
  expect(input.children).toEqual([
    { id: 'source', width: 240, height: 100 },
    { id: 'window', width: 240, height: 100 },
  ]);
  expect(input.edges).toEqual([{ id: 'source>window#0', sources: ['source'], targets: ['window'] }]);
});

test('a plan node without inputs is a source', () => {
  const node = { id: 'a', parallelism: 1, operator: '', operator_strategy: '', description: 'a' };
  expect(topologyOfPlan({ jid: '', name: '', type: 'STREAMING', nodes: [node] }).edges).toEqual([]);
});
