import { expect, test } from 'vitest';

import type { Facts } from './catalog';
import { emptyDocument, faults } from './document';
import { hiddenNodes, neighbour } from './groups';
import { outline } from './outline';
import * as operations from './operations';
import { isSameJob, topologicalOrder } from './order';
import { TYPES, idsFrom, line, nodeType, port, portsIn, seeded } from './testPipelines';

const makeId = idsFrom(seeded(7));

function edges(document: ReturnType<typeof line>) {
  return Object.values(document.edges).map(({ from, to }) => `${from.join('.')} > ${to.join('.')}`);
}

test('nodes of one type get names and uids of their own', () => {
  const first = operations.addNode(emptyDocument('x'), TYPES.filter, [0, 0], makeId);
  const second = operations.addNode(first.document, TYPES.filter, [0, 90], makeId);
  const names = Object.values(second.document.nodes).map(({ name }) => name);
  expect(names).toEqual(['filter', 'filter 2']);
  expect(faults(second.document)).toEqual([]);
  expect(second.document.nodes[first.id]?.params).toEqual({ text: '' });
});

test('a node that is added covers no other', () => {
  let document = emptyDocument('x');
  for (let count = 0; count < 3; count += 1) {
    const place = operations.uncovered(document, [40, 10]);
    document = operations.addNode(document, TYPES.filter, place, makeId).document;
  }
  expect(Object.values(document.layout?.positions ?? {})).toEqual([
    [40, 10],
    [40, 140],
    [40, 270],
  ]);
  expect(operations.uncovered(document, [300, 10])).toEqual([300, 10]);
});

test('a connection that cannot be is refused with a reason', () => {
  const { document, id: join } = operations.addNode(line(), TYPES.join, [0, 300], makeId);
  const why = (from: [string, string], to: [string, string]) =>
    operations.refusal(document, from, to, portsIn(document));
  expect(why(['n1', 'out'], ['n1', 'in'])).toBe('Bids has no such input');
  expect(why(['n1', 'out'], ['n2', 'in'])).toBe('Already connected');
  expect(why(['n2', 'out'], ['n2', 'in'])).toBe('A node cannot feed itself');
  expect(why([join, 'out'], ['n2', 'in'])).toBe('The input in is taken: put a Union before it');
  expect(why(['n1', 'out'], [join, 'left'])).toBeNull();
  expect(why(['n1', 'gone'], [join, 'left'])).toBe('Bids has no such output');
  const back = operations.connect(document, ['n2', 'out'], [join, 'left'], makeId).document;
  const { document: more, id: union } = operations.addNode(back, TYPES.union, [0, 0], makeId);
  const fed = operations.connect(more, [join, 'out'], [union, 'in'], makeId).document;
  expect(operations.refusal(fed, [union, 'out'], [join, 'right'], portsIn(fed))).toBe('That would make a cycle');
  expect(operations.openInput(fed, ['n1', 'out'], join, portsIn(fed))).toBe('right');
});

test('a stream that takes rows back is refused where only new ones go, with what helps', () => {
  const choosy = nodeType('choosy', [], ['out'], {
    ports: {
      inputs: [port('in', false, { takes_changelogs: false, changelog_option: 'set its Mode to upsert' })],
      outputs: [port('out')],
    },
  });
  const windows = nodeType('windows', [], ['out'], {
    ports: { inputs: [port('in', false, { takes_changelogs: false })], outputs: [port('out')] },
  });
  const facts = (changelog: 'append' | 'retract'): Facts => ({
    columns: [],
    changelog,
    unique_key: null,
    event_time: true,
    watermarks: true,
    time_column: null,
    bounded: false,
  });
  const first = operations.addNode(line(), choosy, [0, 300], makeId);
  const { document, id } = operations.addNode(first.document, windows, [0, 400], makeId);
  const lookup = (each: string) =>
    each === first.id ? choosy.ports : each === id ? windows.ports : portsIn(document)(each);
  const why = (to: string, changelog: 'append' | 'retract') =>
    operations.refusal(document, ['n1', 'out'], [to, 'in'], lookup, () => facts(changelog));
  expect(why(first.id, 'append')).toBeNull();
  expect(why(first.id, 'retract')).toBe(
    'choosy takes new rows only, and this stream takes rows back: set its Mode to upsert',
  );
  expect(why(id, 'retract')).toBe(
    'windows takes new rows only, and this stream takes rows back: ' +
      'put it before the node that makes the changelog, or aggregate by window there',
  );
  expect(operations.refusal(document, ['n1', 'out'], [id, 'in'], lookup)).toBeNull();
  expect(operations.openInput(document, ['n1', 'out'], id, lookup, () => facts('retract'))).toBeNull();
  // a new node can be set to take them: it is offered
  const fits = [choosy, windows, TYPES.filter, TYPES.source].map((type) =>
    operations.fitsBehind(type, facts('retract')),
  );
  expect(fits).toEqual([true, false, true, false]);
  expect(operations.fitsBehind(windows, facts('append'))).toBe(true);
  expect(operations.fitsBehind(windows, null)).toBe(true);
});

test('a node put on an edge stands between its ends, and what is behind makes room', () => {
  const made = operations.insertNew(line(), 'e1', TYPES.filter, makeId);
  expect(made).not.toBeNull();
  if (made === null) return;
  expect(edges(made.document).sort()).toEqual(
    ['n1.out > ' + made.id + '.in', made.id + '.out > n2.in', 'n2.out > n3.in'].sort(),
  );
  const positions = made.document.layout?.positions;
  expect(positions?.[made.id]).toEqual([300, 0]);
  expect(positions?.n2).toEqual([600, 0]);
  expect(positions?.n3).toEqual([900, 0]);
  expect(operations.insertNew(line(), 'e1', TYPES.sink, makeId)).toBeNull();
});

test('deleting a node heals its edge, and takes everything along that refers to it', () => {
  const grouped = operations.addGroup(line(), ['n2'], makeId);
  const document = operations.remove(grouped?.document ?? line(), { nodes: ['n2'] }, makeId);
  expect(edges(document)).toEqual(['n1.out > n3.in']);
  expect(document.layout?.groups).toEqual({});
  expect(Object.keys(document.layout?.positions ?? {})).toEqual(['n1', 'n3']);
  const cut = operations.remove(line(), { nodes: ['n2'], heals: false }, makeId);
  expect(edges(cut)).toEqual([]);
  const chain = operations.remove(line(), { nodes: ['n2', 'n1'] }, makeId);
  expect(edges(chain)).toEqual([]);
});

test('a parameter set to what it is leaves the document alone', () => {
  const document = operations.setParam(line(), 'n2', 'text', 'x');
  expect(operations.setParam(document, 'n2', 'text', 'x')).toBe(document);
  expect(operations.setParam(document, 'n2', 'gone', undefined)).toBe(document);
  expect(operations.setParam(document, 'n2', 'text', undefined).nodes.n2?.params).toEqual({});
});

test('a name in use gets a number, and a blank one is refused', () => {
  expect(operations.renameNode(line(), 'n2', ' Bids ').nodes.n2?.name).toBe('Bids 2');
  expect(operations.renameNode(line(), 'n2', '  ').nodes.n2?.name).toBe('Dear');
  expect(operations.renameNode(line(), 'n2', 'Cheap').nodes.n2?.uid).toBe('Dear-0');
});

test('moving, notes and descriptions leave the job as it is; parameters do not', () => {
  const document = line();
  expect(isSameJob(document, operations.moveNodes(document, { n1: [5, 5] }))).toBe(true);
  expect(isSameJob(document, operations.addNote(document, [0, 0], makeId).document)).toBe(true);
  expect(isSameJob(document, operations.setParam(document, 'n2', 'text', 'x'))).toBe(false);
  expect(operations.moveNodes(document, { n1: [0, 0] })).toBe(document);
});

test('nodes are in order from the sources down, whatever order they were made in', () => {
  const document = line();
  const turned = {
    ...document,
    nodes: Object.fromEntries(Object.entries(document.nodes).reverse()),
    edges: Object.fromEntries(Object.entries(document.edges).reverse()),
  };
  expect(topologicalOrder(turned)).toEqual(['n1', 'n2', 'n3']);
});

test('the outline goes from the sources down, and arrow keys follow edges', () => {
  const document = line();
  expect(outline(document).map(({ id, level, from, to }) => [id, level, from, to])).toEqual([
    ['n1', 1, [], ['Dear']],
    ['n2', 2, ['Bids'], ['Show']],
    ['n3', 3, ['Dear'], []],
  ]);
  const hidden = hiddenNodes(document);
  expect(neighbour(document, hidden, 'n1', 'right')).toEqual(['n2']);
  expect(neighbour(document, hidden, 'n3', 'left')).toEqual(['n2']);
  expect(neighbour(document, hidden, 'n1', 'down')).toBeNull();
});

test('a collection of nodes is disabled, and enabled once all are', () => {
  const half = operations.toggleDisabled(line(), ['n1']);
  const all = operations.toggleDisabled(half, ['n1', 'n2']);
  expect([all.nodes.n1?.disabled, all.nodes.n2?.disabled]).toEqual([true, true]);
  expect(operations.toggleDisabled(all, ['n1', 'n2']).nodes.n1?.disabled).toBe(false);
});
