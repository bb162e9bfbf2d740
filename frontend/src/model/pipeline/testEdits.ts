/**
 * Random edits for tests: one for each way in which the editor changes a document, under the place of its `transact` in
 * the sources. A test sees that none is missing.
 */

import { layered } from '../../components/Editor/layered';
import { arranged } from './arranged';
import { copied, inlineNode, pasted, readTable } from './clipboard';
import * as declarations from './declarations';
import { type MakeId, type Partitioning, type PipelineDocument, type Point, emptyDocument } from './document';
import * as groups from './groups';
import { applyPatch } from './jsonPatch';
import { type Merge, decided, mergeDocuments, tidied } from './merge';
import * as operations from './operations';
import { ranks } from './order';
import { takenOver } from './readSchema';
import { withSample } from './samples';
import { TYPES, catalog, idsFrom, portsIn, seeded } from './testPipelines';
import * as tests from './tests';

type Edit = (document: PipelineDocument, random: () => number, makeId: MakeId) => PipelineDocument;

/** Pipelines stay small enough to be looked at. */
const MAX_NODES = 60;

function pick<T>(items: readonly T[], random: () => number): T | undefined {
  return items[Math.floor(random() * items.length)];
}

function number(below: number, random: () => number): number {
  return Math.floor(random() * below);
}

function aNode(document: PipelineDocument, random: () => number): string {
  return pick(Object.keys(document.nodes), random) ?? '';
}

function someNodes(document: PipelineDocument, random: () => number): string[] {
  return Object.keys(document.nodes).filter(() => random() < 0.3);
}

function aNote(document: PipelineDocument, random: () => number): string {
  return pick(Object.keys(document.layout?.notes ?? {}), random) ?? '';
}

function aGroup(document: PipelineDocument, random: () => number): string {
  return pick(Object.keys(document.layout?.groups ?? {}), random) ?? '';
}

function aPlace(random: () => number): Point {
  return operations.snapped([random() * 900, random() * 600]);
}

function aType(document: PipelineDocument, random: () => number): string {
  return pick(Object.keys(document.types ?? {}), random) ?? '';
}

function typeOf(name: string) {
  return catalog.types.find(({ type }) => type === name);
}

const add: Edit = (document, random, makeId) => {
  if (Object.keys(document.nodes).length >= MAX_NODES) return document;
  const edge = pick(Object.keys(document.edges), random);
  if (edge !== undefined && random() < 0.4) {
    const type = pick([TYPES.filter, TYPES.split, TYPES.join, TYPES.union], random) ?? TYPES.filter;
    return operations.insertNew(document, edge, type, makeId)?.document ?? document;
  }
  return operations.addNode(document, pick(catalog.types, random) ?? TYPES.filter, aPlace(random), makeId).document;
};

const connect: Edit = (document, random, makeId) => {
  const [from, to] = [aNode(document, random), aNode(document, random)];
  const lookup = portsIn(document);
  const output = pick(lookup(from).outputs, random);
  const input = pick(lookup(to).inputs, random);
  if (output === undefined || input === undefined) return document;
  const ends = [
    [from, output.name],
    [to, input.name],
  ] as const;
  if (operations.refusal(document, ends[0], ends[1], lookup) !== null) return document;
  return operations.connect(document, ends[0], ends[1], makeId).document;
};

const drop: Edit = (document, random, makeId) => {
  const boxes = [...someNodes(document, random), ...Object.keys(document.layout?.groups ?? {}).map(groups.boxOf)];
  const to = new Map(boxes.slice(0, 3).map((id) => [id, aPlace(random)]));
  let moved = groups.moveSeen(document, to);
  moved = operations.changeNote(moved, aNote(document, random), { at: aPlace(random) });
  const edge = pick(Object.keys(document.edges), random) ?? '';
  const loose = Object.keys(document.nodes).find(
    (id) => !Object.values(document.edges).some(({ from, to }) => from[0] === id || to[0] === id),
  );
  if (loose === undefined) return moved;
  return operations.insertOnEdge(moved, edge, loose, portsIn(document)(loose), makeId) ?? moved;
};

const removeSome: Edit = (document, random, makeId) => {
  const notes = random() < 0.3 ? [aNote(document, random)] : [];
  const edges = random() < 0.3 ? [pick(Object.keys(document.edges), random) ?? ''] : [];
  return operations.remove(document, { nodes: someNodes(document, random).slice(0, 2), edges, notes }, makeId);
};

const paste: Edit = (document, random, makeId) => {
  const clip = copied(document, someNodes(document, random), Object.keys(document.layout?.notes ?? {}).slice(0, 1));
  if (clip === null || Object.keys(document.nodes).length > MAX_NODES) return document;
  return pasted(document, clip, aPlace(random), makeId).document;
};

const param: Edit = (document, random) =>
  operations.setParam(document, aNode(document, random), 'text', `${number(9, random)}`);

const parallelism: Edit = (document, random) =>
  operations.changeNode(document, aNode(document, random), (node) => ({
    ...node,
    parallelism: pick([null, 1, 4], random) ?? null,
    chaining: pick(['always', 'head', 'never'] as const, random) ?? 'always',
    slot_group: pick([null, 'a', 'b'], random) ?? null,
  }));

const group: Edit = (document, random, makeId) =>
  operations.addGroup(document, someNodes(document, random), makeId)?.document ?? document;

const collapse: Edit = (document, random) => {
  const found = groups.groupOf(document, aNode(document, random));
  return found === null ? document : groups.toggleCollapsed(document, [found[0]]);
};

const pin: Edit = (document, random) => {
  const rows = Array.from({ length: number(3, random) }, (_, time) => ({ row: { id: time }, time }));
  return withSample(document, aNode(document, random), { rows, pinned: random() < 0.8 });
};

const writeTest: Edit = (document, random) => {
  const known = pick(tests.testsOf(document), random)?.name ?? null;
  const given = { [aNode(document, random) || 'n1']: [{ row: { id: 1 }, time: 5 }, { watermark: 9 }] };
  const name = random() < 0.1 ? 'z'.repeat(300) : `Test ${number(4, random)}`;
  return tests.withTest(document, random() < 0.5 ? known : null, { name, given, expect: { n1: [{ id: 1 }] } });
};

/** The document that somebody else has made of it meanwhile. */
function elsewhere(document: PipelineDocument, random: () => number, makeId: MakeId): PipelineDocument {
  const edits = [add, removeSome, param, group, connect, parallelism];
  return Array.from({ length: 3 }).reduce<PipelineDocument>(
    (changed) => (pick(edits, random) ?? param)(changed, random, makeId),
    document,
  );
}

/** What a merge makes. Two people's edges may lead in a circle, which is a problem that the server tells: not here. */
function mergedWith(document: PipelineDocument, random: () => number, makeId: MakeId): Merge {
  const [ours, theirs] = [elsewhere(document, random, makeId), elsewhere(document, random, makeId)];
  const merged = mergeDocuments(document, ours, theirs);
  const isCircle = ranks(merged.document).size < Object.keys(merged.document.nodes).length;
  return isCircle ? { document, conflicts: [] } : merged;
}

const patch: Edit = (document, random) => {
  const node = aNode(document, random);
  if (node === '') return document;
  const made = {
    type: 'filter',
    type_version: 1,
    name: `Fix ${node}`,
    uid: `fix-${node}-${number(1e9, random)}`,
    params: {},
  };
  const id = `x${number(1e9, random)}`;
  const steps = [
    { op: 'add', path: `/nodes/${node}/params/text`, value: 'fixed' },
    { op: 'add', path: `/nodes/${id}`, value: made },
  ] as const;
  return arranged(document, tidied(applyPatch(document, random() < 0.3 ? steps : steps.slice(0, 1))));
};

/** By file and first argument of `transact`. */
export const EDITS: Readonly<Record<string, Edit>> = {
  'Canvas.tsx: label': (document, random, makeId) => (random() < 0.5 ? connect : drop)(document, random, makeId),
  "Conflicts.tsx: 'Decided: {place}'": (document, random, makeId) => {
    const merged = mergedWith(document, random, makeId);
    const conflict = pick(merged.conflicts, random);
    if (conflict === undefined) return merged.document;
    const taken = decided(merged.document, conflict, 'theirs');
    return ranks(taken).size < Object.keys(taken.nodes).length ? merged.document : taken;
  },
  "EdgePanel.tsx: 'Changed the partitioning'": (document, random) =>
    operations.setPartitioning(
      document,
      pick(Object.keys(document.edges), random) ?? '',
      pick<Partitioning | null>([null, 'rebalance', 'broadcast'], random) ?? null,
    ),
  "Editor.tsx: 'Version {number} again'": (document, random, makeId) =>
    random() < 0.2 ? randomPipeline(number(50, random), 5) : add(document, random, makeId),
  "Editor.tsx: 'Renamed the pipeline'": (document, random) =>
    operations.renamePipeline(document, random() < 0.2 ? 'x'.repeat(300) : `Pipeline ${number(9, random)}`),
  "Inspector.tsx: 'Changed {name}'": param,
  "OperatorSettings.tsx: 'Changed {name}'": parallelism,
  "Inspector.tsx: 'Renamed {old} to {name}'": (document, random) =>
    operations.renameNode(document, aNode(document, random), random() < 0.2 ? 'y'.repeat(300) : 'Name'),
  "Inspector.tsx: 'Example: {title}'": (document, random) =>
    operations.changeNode(document, aNode(document, random), (old) => ({
      ...old,
      params: { ...old.params, text: 'example', window: { kind: 'tumbling', size: '10 s' } },
    })),
  "Inspector.tsx: 'Wrote a note'": (document, random) =>
    operations.changeNote(document, aNote(document, random), { text: ['a', `${number(9, random)}`] }),
  "Inspector.tsx: 'Coloured a note'": (document, random) =>
    operations.changeNote(document, aNote(document, random), { colour: pick(['blue', 'pink'], random) ?? 'green' }),
  "Inspector.tsx: 'Renamed a group'": (document, random) =>
    operations.renameGroup(document, aGroup(document, random), `Group ${number(9, random)}`),
  "Inspector.tsx: 'Ungrouped'": (document, random) => operations.ungroup(document, aGroup(document, random)),
  "PipelinePanel.tsx: 'Described the pipeline'": (document, random) => ({
    ...document,
    description: ['It counts', `${number(9, random)}`],
  }),
  "PipelinePanel.tsx: 'Changed the settings'": (document, random) =>
    operations.setSetting(document, 'parallelism', pick([undefined, 1, 2, 3], random)),
  'PipelinePanel.tsx: label': (document, random) => {
    const kind = number(3, random);
    if (kind === 0) return declarations.removeParameter(document, number(3, random));
    if (kind === 1) return declarations.removeType(document, aType(document, random), typeOf);
    const type = pick(declarations.PARAMETER_TYPES, random) ?? 'string';
    return declarations.retypeParameter(document, number(3, random), type);
  },
  "PipelinePanel.tsx: 'Renamed the parameter {old} to {name}'": (document, random) =>
    declarations.renameParameter(document, number(3, random), `p${number(9, random)}`),
  "PipelinePanel.tsx: 'Changed the parameter {name}'": (document, random) => {
    const name = pick(declarations.parametersOf(document), random)?.name;
    if (name === undefined || random() < 0.5)
      return declarations.changeParameter(document, number(3, random), { default: `${number(9, random)}` });
    return operations.setParam(document, aNode(document, random), 'text', { [declarations.REFERENCE]: name });
  },
  "PipelinePanel.tsx: 'Added a parameter'": (document) => declarations.addParameter(document),
  "PipelinePanel.tsx: 'Renamed the type {type} to {name}'": (document, random) =>
    declarations.renameType(document, aType(document, random), `row_${number(9, random)}`, typeOf),
  "PipelinePanel.tsx: 'Changed the type {type}'": (document, random) =>
    declarations.setTypeColumns(document, aType(document, random), [['id', 'long']]),
  "PipelinePanel.tsx: 'Added a type'": (document) => declarations.addType(document).document,
  "PipelinePanel.tsx: 'Changed the shared Python'": (document, random) =>
    declarations.setCode(document, [`x = ${number(3, random)}`]),
  "ReadSchema.tsx: 'Read the columns of {name}'": (document, random) =>
    takenOver(document, aNode(document, random), {
      field: '/params/type',
      row: 'row<"id": long>',
      columns: [['id', 'long']],
      fingerprint: 'f',
      read_at: 7,
    }),
  "RenameColumn.tsx: 'Renamed the column {column} to {name}'": (document, random, makeId) =>
    patch(document, random, makeId),
  "SampleActions.tsx: 'Pinned rows of {name}'": pin,
  "SampleActions.tsx: 'Unpinned rows of {name}'": (document, random) =>
    withSample(document, aNode(document, random), null),
  "SampleActions.tsx: 'Edited pinned rows of {name}'": pin,
  "SampleActions.tsx: 'Saved a test'": writeTest,
  "TestsPanel.tsx: 'Added a test'": writeTest,
  'TestsPanel.tsx: label': writeTest,
  "TestsPanel.tsx: 'Deleted a test'": (document, random) =>
    tests.withoutTest(document, pick(tests.testsOf(document), random)?.name ?? ''),
  "actions.ts: 'Added {title}'": add,
  "actions.ts: `${label} ${names === '' ? (edges.length > 0 ? t('connection') : t('note')) : names}`": removeSome,
  "actions.ts: 'Deleted {present}'": (document, random, makeId) =>
    operations.remove(document, { nodes: [aNode(document, random)] }, makeId),
  "actions.ts: '{label} {count} nodes'": paste,
  "actions.ts: 'Pasted {count} rows'": (document, random, makeId) => {
    const table = readTable('id,name\n1,a\n2,b\n');
    if (table === null || Object.keys(document.nodes).length >= MAX_NODES) return document;
    const node = inlineNode(document, TYPES.source, table, makeId);
    return operations.withNode(document, node, aPlace(random), makeId).document;
  },
  "actions.ts: `${isOff ? t('Enabled') : t('Disabled')} ${names}`": (document, random) =>
    operations.toggleDisabled(document, someNodes(document, random)),
  "actions.ts: 'Grouped'": group,
  "actions.ts: `${isOpen ? t('Collapsed') : t('Expanded')} ${names}`": collapse,
  "actions.ts: 'Added a note'": (document, random, makeId) =>
    operations.addNote(document, aPlace(random), makeId).document,
  "actions.ts: 'Moved'": (document, random) => {
    const moved = someNodes(document, random).map((id) => [id, aPlace(random)]);
    return operations.moveNodes(document, Object.fromEntries(moved) as Record<string, Point>);
  },
  'actions.ts: label': connect,
  "actions.ts: 'Arranged'": (document) => operations.moveNodes(document, layered(document, new Map())),
  'useAutosave.ts: label': (document, random, makeId) => mergedWith(document, random, makeId).document,
  'editor.ts: fix.title': patch,
};

const ALL = Object.values(EDITS);

export function randomEdit(document: PipelineDocument, random: () => number, makeId: MakeId): PipelineDocument {
  return pick(ALL, random)?.(document, random, makeId) ?? document;
}

/** A pipeline of a few nodes, with the ids that the seed gives. */
export function randomPipeline(seed: number, edits = 20): PipelineDocument {
  const random = seeded(seed);
  const makeId = idsFrom(random);
  let document = emptyDocument('Random');
  for (let count = 0; count < edits; count += 1) document = randomEdit(document, random, makeId);
  return document;
}
