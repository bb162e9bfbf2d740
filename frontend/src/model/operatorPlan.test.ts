import { expect, test } from 'vitest';

import type { OperatorPlan, PlannedOperator } from '../gen/contract';
import { topologyOfOperators } from './graph';
import { chainOf, placeOf } from './operatorPlan';

function operator(id: string, vertex: string): PlannedOperator {
  return { id, uid: '', name: id, description: id, parallelism: 1, vertex, output: '', defined_at: 'job.py:3' };
}

const PLAN: OperatorPlan = {
  nodes: [operator('source', 'a'), operator('map', 'a'), operator('count', 'b')],
  edges: [
    { source: 'source', target: 'map', ship_strategy: 'FORWARD', side_output: '' },
    { source: 'map', target: 'count', ship_strategy: 'HASH', side_output: '' },
    { source: 'map', target: 'count', ship_strategy: 'HASH', side_output: 'late' },
  ],
  files: {},
};

test('a place is the file and the line, also below an archive', () => {
  expect(placeOf('job.py:12')).toEqual({ file: 'job.py', line: 12 });
  expect(placeOf('job.zip/pkg/a:b.py:7')).toEqual({ file: 'job.zip/pkg/a:b.py', line: 7 });
});

test.each(['', 'job.py', ':3', 'job.py:x', 'job.py:0'])('%j is no place', (text) => {
  expect(placeOf(text)).toBeNull();
});

test('a chain has the operators of one vertex', () => {
  expect(chainOf(PLAN, operator('map', 'a')).map(({ id }) => id)).toEqual(['source', 'map']);
});

test('two edges between the same operators are two, and a side output says which', () => {
  const { nodes, edges } = topologyOfOperators(PLAN);
  expect(nodes.map(({ id }) => id)).toEqual(['source', 'map', 'count']);
  expect(new Set(edges.map(({ id }) => id)).size).toBe(3);
  expect(edges.map(({ shipStrategy }) => shipStrategy)).toEqual(['FORWARD', 'HASH', 'HASH · late']);
});
