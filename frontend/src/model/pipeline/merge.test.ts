import { expect, test } from 'vitest';

import type { Json, PipelineDocument } from './document';
import { faults } from './document';
import { type Conflict, decided, mergeDocuments, openConflicts, placeOf, valueOf, withoutPlace } from './merge';
import * as operations from './operations';
import { isSameDocument, ranks } from './order';
import { randomEdit, randomPipeline } from './testEdits';
import { idsFrom, line, seeded } from './testPipelines';

const makeId = idsFrom(seeded(11));

test('changes of different fields are joined', () => {
  const ours = operations.setParam(line(), 'n2', 'text', 'ours');
  const theirs = operations.setParam(operations.renameNode(line(), 'n2', 'Theirs'), 'n2', 'other', 1);
  const { document, conflicts } = mergeDocuments(line(), ours, theirs);
  expect(conflicts).toEqual([]);
  expect(document.nodes.n2).toMatchObject({ name: 'Theirs', params: { text: 'ours', other: 1 } });
});

test('one field changed on both sides is a conflict with both values, which either side can win', () => {
  const ours = operations.setParam(line(), 'n2', 'text', 'ours');
  const theirs = operations.setParam(line(), 'n2', 'text', 'theirs');
  const { document, conflicts } = mergeDocuments(line(), ours, theirs);
  expect(conflicts).toEqual([
    { path: ['nodes', 'n2', 'params', 'text'], base: undefined, ours: 'ours', theirs: 'theirs' },
  ]);
  expect(document.nodes.n2?.params.text).toBe('ours');
  const [conflict] = conflicts as [Conflict];
  expect(placeOf(conflict, document)).toBe('Dear: text');
  const deeper = { ...conflict, path: ['nodes', 'n2', 'params', 'rows_per_second', 'at_most'] };
  expect(placeOf(deeper, document)).toBe('Dear: rows per second › at_most');
  expect(decided(document, conflict, 'theirs').nodes.n2?.params.text).toBe('theirs');
  expect(mergeDocuments(line(), ours, ours).conflicts).toEqual([]);
});

test('no name is lost, whatever it is', () => {
  const options = (text: string) => operations.setSetting(line(), 'options', JSON.parse(text) as Json);
  const merged = mergeDocuments(options('{}'), options('{"a": "b"}'), options('{"__proto__": "c"}')).document;
  expect(JSON.stringify(merged.settings?.options)).toBe('{"a":"b","__proto__":"c"}');
});

test('a parameter is one field: a window half of each is nobody’s', () => {
  const base = operations.setParam(line(), 'n2', 'window', { kind: 'tumbling', size: '10 s' });
  const ours = operations.setParam(base, 'n2', 'window', { kind: 'session', gap: '5 s' });
  const theirs = operations.setParam(base, 'n2', 'window', { kind: 'tumbling', size: '10 s', offset: '1 s' });
  const { document, conflicts } = mergeDocuments(base, ours, theirs);
  expect(conflicts).toHaveLength(1);
  expect(document.nodes.n2?.params.window).toEqual({ kind: 'session', gap: '5 s' });
});

test('a node that one side deletes and the other changes is asked about, and neither answer leaves loose ends', () => {
  const ours = operations.remove(line(), { nodes: ['n2'] }, makeId);
  const theirs = operations.setParam(line(), 'n2', 'text', 'theirs');
  const { document, conflicts } = mergeDocuments(line(), ours, theirs);
  expect(conflicts.map(({ path }) => path)).toEqual([['nodes', 'n2']]);
  const [conflict] = conflicts as [Conflict];
  expect(decided(document, conflict, 'theirs').nodes.n2?.params.text).toBe('theirs');
  expect(faults(decided(document, conflict, 'ours'))).toEqual([]);
});

test('a node that one side deletes and the other connects comes back', () => {
  const { document: more, id } = operations.withNode(
    line(),
    { type: 'sink', type_version: 1, name: 'Second', uid: 'second', params: {} },
    [600, 200],
    makeId,
  );
  const ours = operations.remove(line(), { nodes: ['n2'] }, makeId);
  const theirs = operations.connect(more, ['n2', 'out'], [id, 'in'], makeId).document;
  const { document, conflicts } = mergeDocuments(line(), ours, theirs);
  expect(document.nodes.n2).toBeDefined();
  expect(conflicts.map(({ path }) => path)).toEqual([['nodes', 'n2']]);
  expect(faults(document)).toEqual([]);
  // here it was deleted: that is still asked, and done if it is chosen
  const [conflict] = conflicts as [Conflict];
  expect(openConflicts(document, conflicts)).toEqual([conflict]);
  expect(valueOf(document, conflict, 'ours')).toBeUndefined();
  expect(valueOf(document, conflict, 'theirs')).toEqual(document.nodes.n2);
  expect(decided(document, conflict, 'theirs')).toBe(document);
  const without = decided(document, conflict, 'ours');
  expect([without.nodes.n2, faults(without), openConflicts(without, conflicts)]).toEqual([undefined, [], []]);
});

/** The conflict of two texts of n2, and the merged document. */
function twoTexts() {
  const ours = operations.setParam(line(), 'n2', 'text', 'ours');
  const theirs = operations.setParam(line(), 'n2', 'text', 'theirs');
  const { document, conflicts } = mergeDocuments(line(), ours, theirs);
  const [conflict] = conflicts as [Conflict];
  return { document, conflict };
}

test('what was written since the merge is shown, and stays if it is chosen', () => {
  const { document, conflict } = twoTexts();
  const later = operations.setParam(document, 'n2', 'text', 'minutes of work');
  expect(valueOf(later, conflict, 'ours')).toBe('minutes of work');
  expect(valueOf(later, conflict, 'theirs')).toBe('theirs');
  expect(decided(later, conflict, 'ours')).toBe(later);
  expect(decided(later, conflict, 'theirs').nodes.n2?.params.text).toBe('theirs');
});

test('with its node, a conflict is gone, and neither side makes half a node; undone, it is back', () => {
  const { document, conflict } = twoTexts();
  const deleted = operations.remove(document, { nodes: ['n2'] }, makeId);
  expect(openConflicts(deleted, [conflict])).toEqual([]);
  for (const side of ['ours', 'theirs'] as const) expect(decided(deleted, conflict, side)).toBe(deleted);
  expect(openConflicts(document, [conflict])).toEqual([conflict]);
});

test('what is gone with its parent is no conflict, whatever it is; what a map may lack is one', () => {
  const conflict = (...path: string[]): Conflict => ({ path, base: 'b', ours: 'o', theirs: 't' });
  const gone = [
    conflict('nodes', 'n9', 'name'),
    conflict('nodes', 'n1', 'schema', 'row'),
    conflict('samples', 'n9'),
    conflict('layout', 'notes', 'x1', 'text'),
    conflict('layout', 'groups', 'g1', 'nodes'),
  ];
  const kept = [
    conflict('name'),
    conflict('nodes', 'n9'),
    conflict('nodes', 'n1', 'params', 'text'),
    conflict('settings', 'parallelism'),
    conflict('settings', 'options', 'x.y'),
    conflict('samples', 'n1'),
    conflict('types', 'order'),
    conflict('layout', 'notes', 'x1'),
  ];
  expect(openConflicts(line(), [...gone, ...kept])).toEqual(kept);
  for (const each of gone) expect(decided(line(), each, 'theirs')).toEqual(line());
  expect(decided(line(), conflict('settings', 'options', 'x.y'), 'theirs').settings).toEqual({
    options: { 'x.y': 't' },
  });
});

test('of one place the last merge counts, and what both would leave as it is is no question', () => {
  const { document, conflict } = twoTexts();
  const newer: Conflict = { ...conflict, theirs: 'theirs again' };
  expect(openConflicts(document, [conflict, newer])).toEqual([newer]);
  expect(withoutPlace([conflict, newer], newer)).toEqual([]);
  expect(openConflicts(operations.setParam(document, 'n2', 'text', 'theirs again'), [conflict, newer])).toEqual([]);
});

test('what both add beside each other is kept, notes too, and positions are never asked about', () => {
  const base = { ...line(), layout: {} };
  const ours = operations.moveNodes(operations.addNote(base, [0, 0], makeId).document, { n1: [1, 1], n2: [2, 2] });
  const theirs = operations.moveNodes(operations.addNote(base, [9, 9], makeId).document, { n1: [5, 5], n3: [3, 3] });
  const { document, conflicts } = mergeDocuments(base, ours, theirs);
  expect(conflicts).toEqual([]);
  expect(Object.keys(document.layout?.notes ?? {})).toHaveLength(2);
  expect(document.layout?.positions).toEqual({ n1: [1, 1], n2: [2, 2], n3: [3, 3] });
});

test('a group of theirs whose nodes are in a group of ours by now is asked about, and can be had', () => {
  const ours = operations.addGroup(line(), ['n1', 'n2'], () => 'aaaaaa')?.document ?? line();
  const made = operations.addGroup(line(), ['n1'], () => 'bbbbbb')?.document ?? line();
  const theirs = operations.changeGroup(made, 'gbbbbbb', { name: 'Clean-up' });
  const { document, conflicts } = mergeDocuments(line(), ours, theirs);
  expect(document.layout?.groups).toEqual(ours.layout?.groups);
  const [conflict] = conflicts as [Conflict];
  expect(placeOf(conflict, document)).toBe('Group Clean-up');
  expect(openConflicts(document, conflicts)).toEqual([conflict]);
  const taken = decided(document, conflict, 'theirs');
  expect(taken.layout?.groups).toEqual({
    gaaaaaa: { name: 'Group', nodes: ['n2'], collapsed: false },
    gbbbbbb: { name: 'Clean-up', nodes: ['n1'], collapsed: false },
  });
  expect(openConflicts(taken, conflicts)).toEqual([]);
});

test('a group of theirs that would lose one of its nodes to a group of ours is asked about', () => {
  const ours = operations.addGroup(line(), ['n1'], () => 'aaaaaa')?.document ?? line();
  const theirs = operations.addGroup(line(), ['n1', 'n3'], () => 'bbbbbb')?.document ?? line();
  const { document, conflicts } = mergeDocuments(line(), ours, theirs);
  expect(faults(document)).toEqual([]);
  const [conflict] = conflicts as [Conflict];
  expect(conflict).toMatchObject({
    path: ['layout', 'groups', 'gbbbbbb', 'nodes'],
    ours: ['n3'],
    theirs: ['n1', 'n3'],
  });
  expect(placeOf(conflict, document)).toBe('Group Group: nodes');
  expect(decided(document, conflict, 'theirs').layout?.groups).toEqual(theirs.layout?.groups);
});

test('what both have connected is connected once: both have deleted what was in between', () => {
  const ours = operations.remove(line(), { nodes: ['n2'] }, () => 'aaaaaa');
  const theirs = operations.remove(line(), { nodes: ['n2'] }, () => 'bbbbbb');
  expect(mergeDocuments(line(), ours, theirs)).toEqual({ document: ours, conflicts: [] });
  const dealt = operations.setPartitioning(theirs, 'ebbbbbb', 'rebalance');
  const { document, conflicts } = mergeDocuments(line(), ours, dealt);
  expect(document.edges).toEqual(ours.edges);
  const [conflict] = conflicts as [Conflict];
  expect(placeOf(conflict, document)).toBe('Connection from Bids to Show');
  expect(decided(document, conflict, 'theirs').edges).toEqual({ eaaaaaa: dealt.edges.ebbbbbb });
});

test('an edge of theirs that makes a circle with one of ours is asked about', () => {
  const apart = { ...line(), edges: {} };
  const ours = operations.connect(apart, ['n2', 'out'], ['n3', 'in'], () => 'aaaaaa').document;
  const both = operations.connect(apart, ['n3', 'out'], ['n2', 'in'], () => 'bbbbbb').document;
  const theirs = operations.connect(both, ['n1', 'out'], ['n2', 'in'], () => 'cccccc').document;
  const { document, conflicts } = mergeDocuments(apart, ours, theirs);
  expect(Object.keys(document.edges)).toEqual(['eaaaaaa', 'ecccccc']);
  expect(conflicts).toEqual([
    { path: ['edges', 'ebbbbbb'], base: undefined, ours: undefined, theirs: theirs.edges.ebbbbbb },
  ]);
  expect(openConflicts(document, conflicts)).toEqual(conflicts);
  const [conflict] = conflicts as [Conflict];
  expect(placeOf(conflict, document)).toBe('Connection from Show to Dear');
  expect(decided(document, conflict, 'ours')).toBe(document);
});

test('an edge that theirs leads into a circle stays where ours has it', () => {
  const base = operations.connect({ ...line(), edges: {} }, ['n1', 'out'], ['n3', 'in'], () => 'aaaaaa').document;
  const ours = operations.connect(base, ['n2', 'out'], ['n3', 'in'], () => 'bbbbbb').document;
  const led = { ...base.edges.eaaaaaa, from: ['n3', 'out'], to: ['n2', 'in'] } as const;
  const { document, conflicts } = mergeDocuments(base, ours, { ...base, edges: { eaaaaaa: led } });
  expect(document).toEqual(ours);
  expect(conflicts).toEqual([
    { path: ['edges', 'eaaaaaa'], base: base.edges.eaaaaaa, ours: base.edges.eaaaaaa, theirs: led },
  ]);
});

type Fields = Map<string, string | undefined>;

/** Everything that can be told apart in a document, by its place, but where boxes lie. */
function fields(document: PipelineDocument): Fields {
  const found: Fields = new Map();
  const add = (place: string, value: Json | undefined) => {
    const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (isMap) for (const [key, part] of Object.entries(value)) add(`${place}/${key}`, part);
    // the order in which nodes came into a group says nothing
    else found.set(place, JSON.stringify(place.startsWith('layout/groups/') ? sorted(value) : value));
  };
  const { layout, edges, ...rest } = document;
  for (const [name, value] of Object.entries(rest)) add(name, value as unknown as Json);
  for (const [id, { from, to, partitioning }] of Object.entries(edges))
    found.set(`edges/${id}`, JSON.stringify([from, to, partitioning ?? null]));
  add('layout/notes', layout?.notes as unknown as Json);
  add('layout/groups', layout?.groups as unknown as Json);
  return found;
}

function sorted(value: Json | undefined): Json | undefined {
  return Array.isArray(value) ? [...(value as readonly Json[])].sort() : value;
}

test('no edit is lost: each is in the merged document or in a conflict, over five hundred pairs of edits', () => {
  for (let seed = 1; seed <= 500; seed += 1) {
    const base = randomPipeline(seed);
    const side = (offset: number) => {
      const random = seeded(seed * 31 + offset);
      const ids = idsFrom(random);
      let document = base;
      for (let count = 0; count < 4; count += 1) document = randomEdit(document, random, ids);
      return document;
    };
    const [ours, theirs] = [side(1), side(2)];
    const { document, conflicts } = mergeDocuments(base, ours, theirs);
    expect(faults(document)).toEqual([]);
    const connections = Object.values(document.edges).map(({ from, to }) => JSON.stringify([from, to]));
    expect(new Set(connections).size, `seed ${seed}: connected twice`).toBe(connections.length);
    expect(ranks(document).size, `seed ${seed}: a circle`).toBe(Object.keys(document.nodes).length);
    const asked = conflicts.map(({ path }) => path.join('/'));
    const [before, merged] = [fields(base), fields(document)];
    for (const changed of [fields(ours), fields(theirs)]) {
      for (const key of new Set([...before.keys(), ...changed.keys()])) {
        if (before.get(key) === changed.get(key) || merged.get(key) === changed.get(key)) continue;
        if (asked.some((path) => key === path || key.startsWith(`${path}/`))) continue;
        // both have drawn it
        const drawn = changed.get(key);
        if (key.startsWith('edges/') && drawn !== undefined && [...merged.values()].includes(drawn)) continue;
        // an edge goes with its node, and a node that is back brings its edges back
        const ends = key.startsWith('edges/')
          ? (JSON.parse(before.get(key) ?? changed.get(key) ?? '[]') as (readonly string[] | null)[])
          : [];
        const isWithItsNode = ends.some(
          (end) =>
            end !== null && (document.nodes[end[0] ?? ''] === undefined || asked.includes(`nodes/${end[0] ?? ''}`)),
        );
        // a group loses nodes that are gone, and goes with the last of them
        const members = JSON.parse(changed.get(key.replace(/[^/]+$/, 'nodes')) ?? '[]') as string[];
        const left = members.filter((id) => document.nodes[id] !== undefined);
        const isLeft = left.length === 0 || (key.endsWith('/nodes') && JSON.stringify(left) === merged.get(key));
        if (isWithItsNode || (key.startsWith('layout/groups/') && isLeft)) continue;
        expect.fail(`seed ${seed}: ${key} was lost`);
      }
    }
    expect(isSameDocument(mergeDocuments(base, ours, base).document, ours)).toBe(true);
    expect(isSameDocument(mergeDocuments(base, base, theirs).document, theirs)).toBe(true);
  }
});
