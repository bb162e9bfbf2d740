import { expect, test } from 'vitest';

import { type Topology, topologyOfVertices } from './graph';
import { edgePath, layoutOf } from './layout';
import { vertex } from './testData';

const SIZE = { width: 200, height: 100, edgeGap: 120 };

function graph(...vertices: readonly [id: string, ...inputs: string[]][]): Topology {
  return topologyOfVertices(vertices.map(([id, ...inputs]) => vertex(id, inputs)));
}

function placed(topology: Topology) {
  const { positions } = layoutOf(topology, SIZE);
  return (id: string) => positions.get(id) ?? { x: NaN, y: NaN };
}

test('columns follow the edges, and sources stand in the first', () => {
  const at = placed(graph(['bids'], ['window', 'bids'], ['persons'], ['join', 'window', 'persons'], ['sink', 'join']));
  expect(at('persons').x).toBe(at('bids').x);
  expect(at('window').x - at('bids').x).toBe(SIZE.width + SIZE.edgeGap);
  expect(at('sink').x - at('join').x).toBe(SIZE.width + SIZE.edgeGap);
});

test('what the program names first is above', () => {
  const at = placed(graph(['a'], ['b'], ['c'], ['union', 'a', 'b', 'c'], ['x', 'union'], ['y', 'union']));
  expect([at('a').y < at('b').y, at('b').y < at('c').y, at('x').y < at('y').y]).toEqual([true, true, true]);
});

test('the picture begins at its upper left corner', () => {
  const { positions } = layoutOf(graph(['a'], ['b', 'a'], ['c', 'a']), SIZE);
  const all = [...positions.values()];
  expect([Math.min(...all.map(({ x }) => x)), Math.min(...all.map(({ y }) => y))]).toEqual([0, 0]);
});

test('no node lies on another, and no edge behind a node', () => {
  const names = Array.from({ length: 40 }, (_, index) => `v${index}`);
  const topology = graph(
    ...names.map((id, index): [string, ...string[]] => [
      id,
      ...[index - 1 - (index % 3), index - 7].filter((i) => i >= 0).map((i) => `v${i}`),
    ]),
  );
  const { positions, lanes } = layoutOf(topology, SIZE);
  const boxes = [...positions.values()];
  const isApart = (y: number, height: number, box: { y: number }) => y >= box.y + SIZE.height || y + height <= box.y;
  boxes.forEach((one, index) => {
    for (const other of boxes.slice(index + 1))
      if (other.x === one.x) expect(isApart(one.y, SIZE.height, other)).toBe(true);
  });
  expect(lanes.size).toBeGreaterThan(5);
  for (const lane of [...lanes.values()].flat()) {
    const column = boxes.filter(({ x }) => Math.abs(x + SIZE.width / 2 - lane.x) < 1);
    expect(column.length).toBeGreaterThan(0);
    // with room for its label
    for (const box of column) expect(isApart(lane.y - 15, 30, box)).toBe(true);
  }
});

test('two edges between the same nodes, parts that are not connected, and nothing at all have a picture', () => {
  const { positions } = layoutOf(graph(['a'], ['b', 'a', 'a'], ['alone']), SIZE);
  expect([...positions.values()].every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y))).toBe(true);
  expect(layoutOf({ nodes: [], edges: [] }, SIZE).positions.size).toBe(0);
});

test('a path goes straight through its lanes, where its label is', () => {
  const [from, to] = [
    { x: 200, y: 50 },
    { x: 640, y: 80 },
  ];
  expect(edgePath(from, to, [], 200)).toEqual({ path: 'M200,50 C420,50 420,80 640,80', label: { x: 420, y: 65 } });
  const { path, label } = edgePath(from, to, [{ x: 420, y: 10 }], 200);
  expect(path).toBe('M200,50 C260,50 260,10 320,10 L520,10 C580,10 580,80 640,80');
  expect(label).toEqual({ x: 420, y: 10 });
});
