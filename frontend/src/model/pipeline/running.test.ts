import { describe, expect, test } from 'vitest';

import { cause } from '../testData';
import type { StaticJob } from '../../gen/contract';
import type { JobWithOperators } from '../job';
import { type EdgeFlow, figuresOfNode, flowOf, runningPipeline } from './running';
import { DRAWN, drawnDocument, drawnJob, edgeRow } from './testRunning';

const document = drawnDocument();

function read(job: JobWithOperators, outputs = DRAWN.outputs, of = document) {
  const running = runningPipeline(of, { ...DRAWN, outputs }, job.static);
  return {
    flow: (id: string): EdgeFlow | null | undefined => {
      const edge = running.edges.get(id);
      return edge === undefined ? undefined : flowOf(job, edge);
    },
    node: (id: string) => {
      const node = running.nodes.get(id);
      return node === undefined ? undefined : { ...node, ...figuresOfNode(job, node) };
    },
  };
}

const { flow, node } = read(drawnJob());

describe('an edge of the document', () => {
  test('inside a chain has what the next operator has received', () => {
    expect(flow('bids-split')).toMatchObject({ records: 1000, perSecond: 100, isChained: true, queuedBytes: null });
    expect(flow('split-totals')).toMatchObject({ records: 900, perSecond: 90, isChained: true });
  });

  test('between vertices has what is sent, what waits and the bytes', () => {
    expect(flow('rates-join')).toEqual({
      records: 50,
      perSecond: 5,
      bytesPerSecond: 500,
      queuedBytes: 64,
      queuedBuffers: 1,
      isChained: false,
    });
  });

  test('from a side output has nothing of the main output, though both are counted as one at the operator', () => {
    expect(flow('large-join')).toMatchObject({ records: 30, perSecond: 3, queuedBytes: 128, isChained: false });
  });

  test('out of a union is the sum of what goes into it, of which each way is known by itself', () => {
    expect(flow('join-all')).toMatchObject({ records: 20, perSecond: 2, queuedBytes: null });
    expect(flow('totals-all')).toMatchObject({ records: 70, perSecond: 7 });
    expect(flow('all-show')).toMatchObject({ records: 90, perSecond: 9, queuedBytes: 32 + 16, bytesPerSecond: 90 });
  });

  test('that is broadcast counts records once', () => {
    const job = drawnJob();
    const show = job.static.vertices.show;
    const inputs = show?.inputs.map((input) => ({ ...input, ship_strategy: 'BROADCAST' })) ?? [];
    const vertices = { ...job.static.vertices, show: { ...show, inputs } } as StaticJob['vertices'];
    // the operators' own figures say the same as before, the edges' four times as much
    const edges = { ...job.moving.edges, 4: edgeRow(80, 8, 40, 32), 5: edgeRow(280, 28, 280, 64) };
    const found = read({ ...job, static: { ...job.static, vertices }, moving: { ...job.moving, edges } });
    expect(found.flow('all-show')).toMatchObject({ records: 90, perSecond: 9, queuedBytes: 96 });
  });

  test('into a node that reads one stream twice has its rate, and no queue: which is which is not known', () => {
    const twice = {
      ...document,
      edges: { ...document.edges, 'large-join': { from: ['rates', 'out'], to: ['join', 'right'] } as const },
    };
    const job = drawnJob();
    const join = job.static.vertices.join;
    const inputs = [join?.inputs[0], { ...join?.inputs[1], operator: 'rates', side_output: '' }];
    const vertices = { ...job.static.vertices, join: { ...join, inputs } } as StaticJob['vertices'];
    const found = read({ ...job, static: { ...job.static, vertices } }, DRAWN.outputs, twice);
    for (const id of ['rates-join', 'large-join']) {
      expect(found.flow(id)).toMatchObject({ perSecond: 5, queuedBytes: null, bytesPerSecond: null });
    }
  });

  test('of which the server does not say enough has no figures', () => {
    expect(flow('bids-off')).toBeUndefined();
    expect(flow('off-show')).toBeUndefined();
    const before = drawnJob();
    const withoutOperators = read({ ...before, operators: {} });
    expect(withoutOperators.flow('bids-split')).toBeNull();
    expect(withoutOperators.flow('rates-join')).toMatchObject({ perSecond: 5 });
    const ofEarlierRelease = read(before, {});
    expect(ofEarlierRelease.flow('bids-split')).toBeUndefined();
  });

  test('is not known if its stream is one of two that leave an operator uncounted', () => {
    const job = drawnJob();
    const edges = { ...job.moving.edges };
    delete edges[3];
    expect(read({ ...job, moving: { ...job.moving, edges } }).flow('large-join')).toBeNull();
  });
});

describe('a node', () => {
  test('of several operators receives what comes to the first and sends what leaves the last', () => {
    expect(node('totals')).toMatchObject({ received: 90, receivedSoFar: 900, sent: 7, sentSoFar: 70 });
    expect(node('totals')?.vertices).toEqual(['bids', 'totals']);
    expect(node('totals')?.entries).toEqual(['totals/local']);
  });

  test('with two inputs receives both', () => {
    expect(node('join')).toMatchObject({ received: 8, receivedSoFar: 80, sent: 2 });
  });

  test('with a side output sends both, each once', () => {
    expect(node('split')).toMatchObject({ received: 100, sent: 93, sentSoFar: 930 });
  });

  test('that is a source or a sink has what comes from outside or goes there', () => {
    expect(node('bids')).toMatchObject({ received: 100, sent: 100 });
    expect(node('show')).toMatchObject({ received: 9, sent: 9 });
  });

  test('without an operator passes on, and runs nowhere', () => {
    expect(node('all')).toMatchObject({ received: 9, sent: 9, state: null, vertices: [], watermark: null });
  });

  test('that is a union of a stream with itself sends it twice', () => {
    const twice = [...(DRAWN.outputs.all?.out ?? []), ...(DRAWN.outputs.totals?.out ?? [])];
    const found = read(drawnJob(), { ...DRAWN.outputs, all: { out: twice } });
    expect(found.node('all')).toMatchObject({ sent: 16 });
  });

  test('that is disabled has nothing', () => {
    expect(node('off')).toBeUndefined();
  });

  test('has the load of all vertices that its operators run in, and says with whom', () => {
    expect(node('totals')).toMatchObject({ busy: 800, idle: 150, back_pressured: 60, state: 'RUNNING' });
    expect(node('totals')?.chainedWith).toEqual(['Bids', 'Split']);
    expect(node('join')?.chainedWith).toEqual([]);
    expect(node('join')?.parallelism).toBe(2);
    // of two parallelisms there is none to be told
    expect(node('totals')?.parallelism).toBeNull();
  });

  test('has the watermark that has reached it, not that of others in its chain', () => {
    expect([node('bids'), node('split'), node('totals'), node('join')].map((each) => each?.watermark)).toEqual([
      9_000,
      9_000,
      8_000,
      null,
    ]);
  });

  test('shows what the server has found about its vertices', () => {
    const job = drawnJob();
    const causes = { limit: cause('totals'), watermark: cause('join', { cause: 'still-watermark' }) };
    const found = read({ ...job, derived: { causes } });
    expect([found.node('totals'), found.node('split'), found.node('join')]).toMatchObject([
      { isBottleneck: true, holdsWatermark: false },
      { isBottleneck: false, holdsWatermark: false },
      { isBottleneck: false, holdsWatermark: true },
    ]);
  });

  test('of a deployment of an earlier release has its load, and no guess of what flows', () => {
    const found = read(drawnJob(), {});
    expect(found.node('totals')).toMatchObject({ busy: 800, received: null, sent: null });
    expect(found.node('bids')).toMatchObject({ received: 100, sent: null });
    expect(found.node('show')).toMatchObject({ received: null, sent: 9 });
  });

  test('whose outputs are one stream sends it once', () => {
    const out = DRAWN.outputs.join?.out ?? [];
    const found = read(drawnJob(), { ...DRAWN.outputs, join: { out, again: out } });
    expect(found.node('join')).toMatchObject({ sent: 2 });
  });

  test('of whose figures one is missing shows none in its place', () => {
    const job = drawnJob();
    const operators = { ...job.operators };
    delete operators.split;
    const found = read({ ...job, operators });
    // what one end does not say, the other may
    expect(found.node('split')).toMatchObject({ received: 100, sent: 93 });
    delete operators.bids;
    expect(found.node('split')).toMatchObject({ received: null, sent: 93 });
  });
});
