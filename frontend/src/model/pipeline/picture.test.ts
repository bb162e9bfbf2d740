import { expect, test } from 'vitest';

import { placesOfPipeline, topologyOfPipeline } from './picture';
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

const SIZE = { width: 100, height: 50 };

test('nodes are where they were drawn, from the upper left corner on', () => {
  const places = placesOfPipeline(document, SIZE);
  expect(places?.positions.get('bids')).toEqual({ x: 0, y: 240 });
  expect(places?.positions.get('totals')).toEqual({ x: 960, y: 0 });
  expect(places?.backdrops).toEqual([]);
});

test('notes and frames of groups are behind the nodes, and may begin left of them', () => {
  const layout = {
    positions: { ...document.layout?.positions },
    groups: {
      g: { name: 'Reading', nodes: ['bids', 'split', 'gone'], collapsed: true },
      none: { name: '', nodes: [], collapsed: false },
    },
    notes: { n: { text: ['One', 'two'], at: [-50, 0] as const, size: [100, 40] as const, colour: 'blue' } },
  };
  const places = placesOfPipeline({ ...document, layout }, SIZE);
  const [bids, split] = [places?.positions.get('bids'), places?.positions.get('split')];
  const [frame, note] = places?.backdrops ?? [];
  expect(places?.backdrops).toHaveLength(2);
  expect(note).toMatchObject({ id: 'n', kind: 'note', text: 'One\ntwo', colour: 'blue', x: 0, width: 160, height: 96 });
  expect(bids?.x).toBeGreaterThan(0);
  expect(frame).toMatchObject({ id: 'g', kind: 'group', text: 'Reading', x: (bids?.x ?? 0) - 22 });
  for (const each of [bids, split]) {
    expect((frame?.x ?? 0) + (frame?.width ?? 0)).toBeGreaterThanOrEqual((each?.x ?? 0) + 100 + 22);
    expect((frame?.y ?? 0) + (frame?.height ?? 0)).toBeGreaterThanOrEqual((each?.y ?? 0) + 50 + 22);
  }
});

test('a document in which a node has no place is not drawn as it is', () => {
  expect(placesOfPipeline({ ...document, layout: { positions: { bids: [0, 0] } } }, SIZE)).toBeNull();
  expect(placesOfPipeline({ ...document, nodes: {}, layout: {} }, SIZE)).toBeNull();
});
