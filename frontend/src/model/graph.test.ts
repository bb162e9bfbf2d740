import { expect, test } from 'vitest';

import { edgeRate, topologyKey, topologyOfPlan, topologyOfVertices } from './graph';
import { figures, liveJob, vertex } from './testData';

const source = vertex('source');
const window = vertex('window', ['source']);

test('edges come from inputs; an unknown upstream is left out', () => {
  const graph = topologyOfVertices([source, vertex('x', ['source', 'nobody'])]);
  expect(graph.edges).toEqual([{ id: 'source>x#0', source: 'source', target: 'x', shipStrategy: 'HASH' }]);
});

test('what moves does not change the key, a new edge does', () => {
  const before = topologyKey(topologyOfVertices([source, window]));
  const moved = { ...window, parallelism: 7, state: 'FAILED' as const };
  expect(topologyKey(topologyOfVertices([source, moved]))).toBe(before);
  expect(topologyKey(topologyOfVertices([source, vertex('window')]))).not.toBe(before);
});

const rates = {
  source: figures({ records_out_per_second: 90 }),
  window: figures({ records_in_per_second: 80 }),
  late: figures({ records_in_per_second: 7 }),
};

test('an edge into a vertex with one input carries what that vertex reads', () => {
  const job = liveJob({ source: [], window: ['source'], late: ['source'] }, { figures: rates });
  const { edges } = topologyOfVertices([source, window, vertex('late', ['source'])]);
  expect(edges.map((edge) => edgeRate(edge, job))).toEqual([80, 7]);
});

test('an edge whose records cannot be told apart has no rate', () => {
  const job = liveJob({ source: [], window: ['source'], union: ['window', 'source'] }, { figures: rates });
  const { edges } = topologyOfVertices([source, window, vertex('union', ['window', 'source'])]);
  const rateOf = (from: string) =>
    edges.filter((edge) => edge.target === 'union' && edge.source === from).map((edge) => edgeRate(edge, job));
  expect([rateOf('window'), rateOf('source')]).toEqual([[0], [null]]);
});

test('two edges between the same vertices keep their own ids', () => {
  const { edges } = topologyOfVertices([source, vertex('self-join', ['source', 'source'])]);
  expect(new Set(edges.map((edge) => edge.id)).size).toBe(2);
});

test('a plan node without inputs is a source', () => {
  const node = { id: 'a', parallelism: 1, operator: '', operator_strategy: '', description: 'a' };
  expect(topologyOfPlan({ jid: '', name: '', type: 'STREAMING', nodes: [node] }).edges).toEqual([]);
});
