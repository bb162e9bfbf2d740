import { expect, test } from 'vitest';

import { placesOfNodes, topologyOfPipeline } from './picture';
import { DRAWN, drawnDocument } from './testRunning';

const document = drawnDocument();

test('edges say which output they are of where a node has several', () => {
  const { edges } = topologyOfPipeline(document, DRAWN.outputs);
  const label = (id: string) => edges.find((edge) => edge.id === id)?.shipStrategy;
  expect([label('bids-split'), label('split-totals'), label('large-join')]).toEqual(['', 'out', 'large']);
  const shuffled = { ...document.edges['large-join'], partitioning: 'shuffle' } as const;
  const other = topologyOfPipeline({ ...document, edges: { e: shuffled as never } }, DRAWN.outputs);
  expect(other.edges[0]?.shipStrategy).toBe('large · shuffle');
});

test('ports have places of their own, in the order of what is at the other ends', () => {
  const { edges } = topologyOfPipeline(document, DRAWN.outputs);
  const ends = Object.fromEntries(edges.map(({ id, leaves, enters }) => [id, [leaves, enters]]));
  expect(ends['split-totals']).toEqual([0.25, 0.5]);
  expect(ends['large-join']).toEqual([0.75, 0.25]);
  expect(ends['rates-join']).toEqual([0.5, 0.75]);
  // two edges from one port leave at one place, and so do two that enter by one
  expect([ends['bids-split']?.[0], ends['bids-off']?.[0]]).toEqual([0.5, 0.5]);
  expect([ends['totals-all']?.[1], ends['join-all']?.[1]]).toEqual([0.5, 0.5]);
});

test('nodes are where they were drawn, from the upper left corner on', () => {
  const places = placesOfNodes(document);
  expect(places?.get('bids')).toEqual({ x: 0, y: 240 });
  expect(places?.get('totals')).toEqual({ x: 960, y: 0 });
});

test('a document in which a node has no place is not drawn as it is', () => {
  expect(placesOfNodes({ ...document, layout: { positions: { bids: [0, 0] } } })).toBeNull();
  expect(placesOfNodes({ ...document, nodes: {}, layout: {} })).toBeNull();
});
