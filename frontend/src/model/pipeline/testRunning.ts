/**
 * For tests: a pipeline and a job of it. Its chains are Bids → Split → the first operator of Totals, the second one, Rates,
 * Join, Show. Split has the side output "large", Join two inputs, and All is a union, of which no operator is made.
 */

import type {
  EdgeFigures,
  JobPipeline,
  LiveOperator,
  LiveVertexStatus,
  OperatorFigures,
  StaticVertex,
  VertexInput,
} from '../../gen/contract';
import type { JobWithOperators, Metrics } from '../job';
import { figures, liveJob } from '../testData';
import { type EdgeEnd, type PipelineDocument, type PipelineNode, type Point, emptyDocument } from './document';

export function operatorRow(
  recordsIn: number,
  recordsOut: number,
  inPerSecond: number,
  outPerSecond: number,
  watermark: OperatorFigures[4] = null,
): OperatorFigures {
  return [recordsIn, recordsOut, inPerSecond, outPerSecond, watermark];
}

export function edgeRow(records: number, perSecond: number, bytes: number, queued: number): EdgeFigures {
  return [records, records, perSecond, bytes, 1, queued, null];
}

const NAMES = {
  bids: 'Bids',
  split: 'Split',
  totals: 'Totals',
  rates: 'Rates',
  join: 'Join',
  all: 'All',
  show: 'Show',
  off: 'Off',
} as const;

const EDGES: Readonly<Record<string, readonly [EdgeEnd, EdgeEnd]>> = {
  'bids-split': [
    ['bids', 'out'],
    ['split', 'in'],
  ],
  'split-totals': [
    ['split', 'out'],
    ['totals', 'in'],
  ],
  'rates-join': [
    ['rates', 'out'],
    ['join', 'left'],
  ],
  'large-join': [
    ['split', 'large'],
    ['join', 'right'],
  ],
  'totals-all': [
    ['totals', 'out'],
    ['all', 'in'],
  ],
  'join-all': [
    ['join', 'out'],
    ['all', 'in'],
  ],
  'all-show': [
    ['all', 'out'],
    ['show', 'in'],
  ],
  'bids-off': [
    ['bids', 'out'],
    ['off', 'in'],
  ],
  'off-show': [
    ['off', 'out'],
    ['show', 'in'],
  ],
};

const POSITIONS: Readonly<Record<string, Point>> = {
  bids: [100, 40],
  split: [400, 40],
  totals: [700, -60],
  rates: [400, 240],
  join: [700, 140],
  all: [1000, 40],
  show: [1300, 40],
  off: [1000, 340],
};

export function drawnDocument(): PipelineDocument {
  const nodes = Object.entries(NAMES).map(([id, name]): [string, PipelineNode] => [
    id,
    { type: 'filter', type_version: 1, name, uid: id, params: {}, disabled: id === 'off' },
  ]);
  return {
    ...emptyDocument('drawn'),
    nodes: Object.fromEntries(nodes),
    edges: Object.fromEntries(Object.entries(EDGES).map(([id, [from, to]]) => [id, { from, to }])),
    layout: { positions: POSITIONS },
  };
}

const output = (uid: string, side_output = '') => [{ operator: `${uid}-id`, side_output }];

export const DRAWN: JobPipeline = {
  pipeline: 'p'.repeat(32),
  name: 'drawn',
  version: 1,
  deployment: 'd'.repeat(32),
  operators: {
    'bids-id': 'bids',
    'split-id': 'split',
    'totals/local-id': 'totals',
    'totals-id': 'totals',
    'rates-id': 'rates',
    'join-id': 'join',
    'show-id': 'show',
  },
  outputs: {
    bids: { out: output('bids') },
    split: { out: output('split'), large: output('split', 'large') },
    totals: { out: output('totals') },
    rates: { out: output('rates') },
    join: { out: output('join') },
    all: { out: [...output('totals'), ...output('join')] },
  },
};

const CHAINS = {
  bids: ['bids', 'split', 'totals/local'],
  rates: ['rates'],
  totals: ['totals'],
  join: ['join'],
  show: ['show'],
} as const;

const LOADS: Readonly<Record<keyof typeof CHAINS, Partial<Metrics>>> = {
  bids: { busy: 300, idle: 640, back_pressured: 60, watermark: 9_000 },
  totals: { busy: 800, idle: 150, back_pressured: 50, watermark: 7_000 },
  rates: {},
  join: {},
  show: {},
};

function input(id: string, edge: number, operator: string, side_output = ''): VertexInput {
  return { id, edge: String(edge), ship_strategy: 'HASH', operator, side_output };
}

const INPUTS: Readonly<Record<keyof typeof CHAINS, VertexInput[]>> = {
  bids: [],
  rates: [],
  totals: [input('bids', 1, 'totals/local')],
  join: [input('rates', 2, 'rates'), input('bids', 3, 'split', 'large')],
  show: [input('join', 4, 'join'), input('totals', 5, 'totals')],
};

export function drawnJob(): JobWithOperators {
  const ids = Object.keys(CHAINS) as (keyof typeof CHAINS)[];
  const job = liveJob(Object.fromEntries(ids.map((id) => [id, []])));
  const vertices: Record<string, StaticVertex> = {};
  const operators: Record<string, LiveOperator> = {};
  const statuses: Record<string, LiveVertexStatus> = {};
  for (const id of ids) {
    const [vertex, status] = [job.static.vertices[id], job.moving.vertices[id]];
    if (vertex !== undefined) vertices[id] = { ...vertex, operators: [...CHAINS[id]], inputs: INPUTS[id] };
    if (status !== undefined) statuses[id] = { ...status, parallelism: id === 'bids' ? 1 : 2 };
    CHAINS[id].forEach((uid, index) => {
      const before = CHAINS[id][index - 1];
      const fed = before === undefined ? {} : { input: { operator: before, side_output: '' } };
      operators[uid] = { id: `${uid}-id`, name: uid, ...fed };
    });
  }
  return {
    ...job,
    static: { ...job.static, vertices, operators },
    moving: {
      ...job.moving,
      vertices: statuses,
      figures: Object.fromEntries(ids.map((id) => [id, figures(LOADS[id])])),
      edges: {
        1: edgeRow(75, 7.5, 75, 0),
        2: edgeRow(50, 5, 500, 64),
        3: edgeRow(30, 3, 300, 128),
        4: edgeRow(20, 2, 20, 32),
        5: edgeRow(70, 7, 70, 16),
      },
    },
    operators: {
      bids: operatorRow(1000, 1000, 100, 100, 9_000),
      // of both outputs
      split: operatorRow(1000, 930, 100, 93, 9_000),
      'totals/local': operatorRow(900, 75, 90, 7.5, 8_000),
      totals: operatorRow(75, 70, 7.5, 7, 7_000),
      rates: operatorRow(50, 50, 5, 5, 6_000),
      join: operatorRow(80, 20, 8, 2, null),
      show: operatorRow(90, 90, 9, 9, 'max'),
    },
  };
}
