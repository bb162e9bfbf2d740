import { describe, expect, it } from 'vitest';

import { copied, pasted, readClip } from './clipboard';
import { type PipelineDocument, faults } from './document';
import * as groups from './groups';
import * as operations from './operations';
import { outline } from './outline';
import { randomPipeline } from './testEdits';
import { idsFrom, line, port, portsIn, seeded } from './testPipelines';

const makeId = idsFrom(seeded(7));

/** n1 → n2 → n3, with n2 and n3 in the collapsed group g1, and n4 beside them. */
function collapsed(): PipelineDocument {
  const document = line();
  const filter = document.nodes.n2;
  if (filter === undefined) throw new Error('n2');
  return {
    ...document,
    nodes: { ...document.nodes, n4: { ...filter, name: 'Other', uid: 'other-0' } },
    layout: {
      positions: { ...document.layout?.positions, n2: [300, 40], n3: [600, -20], n4: [300, 300] },
      groups: { g1: { name: 'Clean-up', nodes: ['n2', 'n3'], collapsed: true } },
    },
  };
}

describe('a collapsed group', () => {
  it('hides its nodes and the edges between them', () => {
    const document = collapsed();
    const hidden = groups.hiddenNodes(document);
    expect([...hidden]).toEqual([
      ['n2', 'g1'],
      ['n3', 'g1'],
    ]);
    const seen = Object.entries(document.edges).filter(([, edge]) => groups.isSeen(hidden, edge));
    expect(seen.map(([id]) => id)).toEqual(['e1']);
    expect(groups.hiddenNodes(groups.toggleCollapsed(document, ['g1'])).size).toBe(0);
  });

  it('is where edges to its nodes end, and the port tells which node and port are meant', () => {
    const hidden = groups.hiddenNodes(collapsed());
    expect(groups.seenEnd(hidden, ['n1', 'out'])).toEqual(['n1', 'out']);
    const end = groups.seenEnd(hidden, ['n2', 'a:b']);
    expect(end).toEqual([groups.boxOf('g1'), 'n2:a:b']);
    expect(groups.realEnd(end)).toEqual(['n2', 'a:b']);
    expect(groups.realEnd(['n1', 'a:b'])).toEqual(['n1', 'a:b']);
    expect(groups.groupOfBox(end[0])).toBe('g1');
    expect(groups.groupOfBox('n1')).toBeNull();
  });

  it('has the ports that lead outside or to nothing yet, and none that lead inside only', () => {
    const document = collapsed();
    const ports = portsIn(document);
    const found = groups.boundary(document, 'g1', ports);
    expect(found.inputs.map(({ id }) => id)).toEqual(['n2:in']);
    expect(found.outputs).toEqual([]);
    const both = operations.connect(document, ['n2', 'out'], ['n4', 'in'], makeId).document;
    expect(groups.boundary(both, 'g1', ports).outputs.map(({ id }) => id)).toEqual(['n2:out']);
    const loose = operations.remove(document, { edges: ['e2'] }, makeId);
    const open = groups.boundary(loose, 'g1', ports);
    expect([...open.inputs, ...open.outputs].map(({ id }) => id)).toEqual(['n2:in', 'n3:in', 'n2:out']);
  });

  it('names a port by its node, and by the port where there are several', () => {
    const ports = () => ({ inputs: [port('left'), port('right')], outputs: [port('out')] });
    const document = operations.remove(collapsed(), { edges: ['e1', 'e2'] }, makeId);
    const found = groups.boundary(document, 'g1', ports);
    expect(found.inputs[0]?.label).toBe('Dear · left');
    expect(found.outputs[0]?.label).toBe('Dear');
  });

  it('stands at the corner of its nodes, and takes them along', () => {
    const document = collapsed();
    expect(groups.placeOfGroup(document, 'g1')).toEqual([300, -20]);
    const moved = groups.moveSeen(
      document,
      new Map([
        [groups.boxOf('g1'), [310, 80]],
        ['n1', [-10, 0]],
      ] as const),
    );
    expect(moved.layout?.positions).toMatchObject({ n1: [-10, 0], n2: [310, 140], n3: [610, 80], n4: [300, 300] });
    expect(groups.placeOfGroup(moved, 'g1')).toEqual([310, 80]);
    expect(groups.moveSeen(moved, new Map([[groups.boxOf('g1'), [310, 80]]]))).toBe(moved);
  });

  it('is one box for the arrow keys', () => {
    const document = collapsed();
    const hidden = groups.hiddenNodes(document);
    expect(groups.neighbour(document, hidden, 'n1', 'right')).toEqual(['n2', 'n3']);
    expect(groups.neighbour(document, hidden, 'n2', 'right')).toBeNull();
    expect(groups.neighbour(document, hidden, 'n3', 'left')).toEqual(['n1']);
    expect(groups.neighbour(document, hidden, 'n2', 'down')).toEqual(['n1']);
    expect(groups.neighbour(document, hidden, 'n4', 'up')).toEqual(['n2', 'n3']);
  });

  it('is told in the outline, which lists its nodes all the same', () => {
    const items = outline(collapsed());
    expect(items.map(({ id, group }) => `${id} ${group?.name ?? '-'}`)).toEqual([
      'n1 -',
      'n4 -',
      'n2 Clean-up',
      'n3 Clean-up',
    ]);
  });

  it('goes with its nodes, and its neighbours are joined', () => {
    const document = operations.connect(collapsed(), ['n2', 'out'], ['n4', 'in'], makeId).document;
    const left = operations.remove(document, { nodes: ['n2', 'n3'] }, makeId);
    expect(left.layout?.groups).toEqual({});
    expect(Object.values(left.edges).map(({ from, to }) => `${from[0]} ${to[0]}`)).toEqual(['n1 n4']);
  });

  it('is copied with all of its nodes, and not with some of them', () => {
    const document = collapsed();
    expect(copied(document, ['n2'])?.groups).toEqual([]);
    const clip = readClip(JSON.stringify(copied(document, ['n1', 'n2', 'n3'])));
    if (clip === null) throw new Error('no clip');
    const made = pasted(document, clip, [0, 500], makeId);
    const [, copy] = Object.values(made.document.layout?.groups ?? {});
    expect(copy).toMatchObject({ name: 'Clean-up 2', collapsed: true });
    expect(copy?.nodes).toHaveLength(2);
    expect(copy?.nodes.every((id) => made.nodes.includes(id))).toBe(true);
    expect(faults(made.document)).toEqual([]);
  });

  it('of an earlier clip is none, and a wrong one is no clip', () => {
    const clip = copied(collapsed(), ['n2', 'n3']);
    if (clip === null) throw new Error('no clip');
    const { groups: known = [], ...earlier } = clip;
    expect(readClip(JSON.stringify(earlier))).toEqual({ ...readClip(JSON.stringify(clip)), groups: undefined });
    expect(readClip(JSON.stringify({ ...clip, groups: [...known, ...known] }))).toBeNull();
    expect(readClip(JSON.stringify({ ...clip, groups: [{ name: 'x' }] }))).toBeNull();
  });

  it('is expanded with others, unless all of them are collapsed', () => {
    const document = collapsed();
    const made = operations.addGroup(document, ['n4'], makeId);
    if (made === null) throw new Error('no group');
    const both = ['g1', made.id];
    const all = groups.toggleCollapsed(made.document, both);
    expect(groups.hiddenNodes(all).size).toBe(3);
    expect(groups.hiddenNodes(groups.toggleCollapsed(all, both)).size).toBe(0);
    expect(groups.toggleCollapsed(document, ['gone'])).toBe(document);
  });
});

describe('any pipeline with collapsed groups', () => {
  it('shows every edge between boxes at ports that the boxes have, and what is seen leads back to it', () => {
    for (let seed = 0; seed < 200; seed += 1) {
      const grown = randomPipeline(seed, 60);
      const document = groups.toggleCollapsed(grown, Object.keys(grown.layout?.groups ?? {}));
      const hidden = groups.hiddenNodes(document);
      const ports = portsIn(document);
      for (const edge of Object.values(document.edges)) {
        const inOne = hidden.has(edge.from[0]) && hidden.get(edge.from[0]) === hidden.get(edge.to[0]);
        expect(groups.isSeen(hidden, edge)).toBe(!inOne);
        for (const [end, kind] of [
          [edge.from, 'outputs'],
          [edge.to, 'inputs'],
        ] as const) {
          const seen = groups.seenEnd(hidden, end);
          expect(groups.realEnd(seen)).toEqual(end);
          const group = hidden.get(end[0]);
          if (inOne || group === undefined) continue;
          expect(groups.boundary(document, group, ports)[kind].map(({ id }) => id)).toContain(seen[1]);
        }
      }
    }
  });
});
