import { expect, test } from 'vitest';

import type { PipelineDocument } from './document';
import { BOX, thumbnail } from './thumbnail';

function drawn(places: Readonly<Record<string, readonly [number, number]>>): PipelineDocument {
  const nodes = Object.fromEntries(
    Object.keys(places).map((id) => [id, { type: 'filter', name: id, uid: id, params: {} }]),
  );
  const ids = Object.keys(places);
  const edges = Object.fromEntries(
    ids.slice(1).map((id, index) => [`e${index}`, { from: [ids[index] ?? '', 'out'], to: [id, 'in'] } as const]),
  );
  return {
    format: 'tidemark.pipeline',
    version: 1,
    name: 'Drawn',
    nodes,
    edges,
    layout: { positions: places },
  } as unknown as PipelineDocument;
}

test('every box is inside the picture, and every edge has its line', () => {
  const { boxes, lines } = thumbnail(drawn({ a: [0, 0], b: [1400, 900], c: [-300, 40] }), 160, 60);
  expect(lines).toHaveLength(2);
  for (const { x, y } of boxes) {
    expect(x).toBeGreaterThanOrEqual(0);
    expect(y).toBeGreaterThanOrEqual(0);
    expect(x + BOX.width).toBeLessThanOrEqual(160.1);
    expect(y + BOX.height).toBeLessThanOrEqual(60.1);
  }
});

test('one node is in the middle, and none is no picture', () => {
  expect(thumbnail(drawn({ a: [700, 300] }), 160, 60).boxes).toEqual([
    { id: 'a', x: (160 - BOX.width) / 2, y: (60 - BOX.height) / 2 },
  ]);
  expect(thumbnail(drawn({}), 160, 60)).toEqual({ boxes: [], lines: [] });
});
