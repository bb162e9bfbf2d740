import { expect, test } from 'vitest';

import type { PreviewAnswer, PreviewPort } from '../../gen/contract';
import type { PipelineDocument } from './document';
import * as operations from './operations';
import {
  cellText,
  chosenPlaces,
  completed,
  endingOf,
  failureOf,
  placeName,
  placesOf,
  rowsOfNode,
  staleNodes,
  tableOf,
  wholeText,
} from './preview';
import { sampleOf, sampleRows, withSample } from './samples';
import { randomEdit, randomPipeline } from './testEdits';
import { idsFrom, line, seeded } from './testPipelines';

function port(node: string, name: string, sample: unknown[], more: Partial<PreviewPort> = {}): PreviewPort {
  const none = sample.map(() => null);
  return {
    node,
    port: name,
    rows: sample.length,
    sample,
    times: none,
    watermarks: none,
    columns: [
      ['a', 'long'],
      ['b', 'string'],
    ],
    watermark: null,
    ...more,
  };
}

function preview(more: Partial<PreviewAnswer> = {}): PreviewAnswer {
  return {
    id: '1',
    version: 1,
    semantic_hash: '',
    state: 'running',
    problems: [],
    pinned: [],
    end: null,
    ports: {
      n3: { in: port('n3', 'in', [{ a: 1, b: 'x' }]) },
      n1: { out: port('n1', 'out', [{ a: 1, b: 'x' }]), bad: port('n1', 'bad', []) },
    },
    ...more,
  };
}

function ended(state: PreviewAnswer['state'], more: Partial<NonNullable<PreviewAnswer['end']>> = {}): PreviewAnswer {
  const end = { message: '', node: null, line: null, code_line: null, traceback: '', simulated: true, output: '' };
  return preview({ state, end: { ...end, limited: [], ...more } });
}

test('rows become cells in the order of the columns, with kind, event time and what is late', () => {
  const rows = [
    { b: 'x', a: 1 },
    { a: 2, b: null, $kind: 'UPDATE_BEFORE' },
  ];
  const table = tableOf(port('n', 'out', rows, { times: [5, 9], watermarks: [null, 9] }));
  expect(table.rows.map(({ cells }) => cells)).toEqual([
    [1, 'x'],
    [2, null],
  ]);
  expect(table.rows.map(({ kind, isLate }) => [kind, isLate])).toEqual([
    ['+I', false],
    ['−U', true],
  ]);
  expect([table.hasTimes, table.hasKinds]).toEqual([true, true]);
});

test('members that a patch has left out are null', () => {
  const sparse = {
    id: '1',
    state: 'failed',
    ports: { n1: { out: { node: 'n1', rows: 1, sample: [1], times: [null], watermarks: [null] } } },
    end: { message: 'no', output: '' },
  } as unknown as PreviewAnswer;
  const whole = completed(sparse);
  expect(whole.ports.n1?.out?.columns).toBeNull();
  expect([whole.end?.node, whole.end?.code_line, whole.end?.limited]).toEqual([null, null, []]);
  expect(failureOf(line(), whole)).toBeNull();
  expect(completed({ ...sparse, end: undefined } as unknown as PreviewAnswer).end).toBeNull();
});

test('Python objects are shown by the keys of dicts, or as one value', () => {
  expect(tableOf(port('n', 'out', [{ y: 1 }, { z: 2 }], { columns: null })).columns.map(({ name }) => name)).toEqual([
    'y',
    'z',
  ]);
  const plain = tableOf(port('n', 'out', [1, [2, 3]], { columns: null }));
  expect(plain.columns).toEqual([{ name: 'value', type: '' }]);
  expect(plain.rows.map(({ cells }) => cells)).toEqual([[1], [[2, 3]]]);
  expect([cellText([2, 3]), cellText('t'), wholeText({ a: 1 })]).toEqual(['[2,3]', 't', '{\n  "a": 1\n}']);
});

test('outputs are listed from the sources down, and those of the selection are shown', () => {
  const document = line();
  expect(placesOf(document, preview()).map(([node]) => node)).toEqual(['n1', 'n1', 'n3']);
  const without = operations.remove(document, { nodes: ['n3'] }, () => 'aaaaaa');
  expect(placesOf(without, preview()).map(([node]) => node)).toEqual(['n1', 'n1']);
  expect(chosenPlaces(document, preview(), ['n3'], [])).toEqual([['n3', 'in']]);
  expect(chosenPlaces(document, preview(), [], ['e1'])).toEqual([['n1', 'out']]);
  expect(chosenPlaces(document, preview(), [], [])).toEqual([]);
  expect(placeName(document, ['n1', 'bad'])).toBe('Bids: bad');
  expect(placeName(document, ['n3', 'in'])).toBe('Show');
  expect(rowsOfNode(preview(), 'n1')).toBe(1);
  expect(rowsOfNode(preview(), 'n2')).toBeNull();
});

test('an edit makes what is below it stale, and nothing else', () => {
  const before = line();
  const stale = (after: PipelineDocument) => [...staleNodes(before, after)].sort();
  expect(stale(before)).toEqual([]);
  expect(stale(operations.setParam(before, 'n2', 'text', 'x'))).toEqual(['n2', 'n3']);
  expect(stale(operations.setParam(before, 'n1', 'text', 'x'))).toEqual(['n1', 'n2', 'n3']);
  expect(stale(operations.renameNode(before, 'n2', 'Other'))).toEqual([]);
  expect(stale(operations.moveNodes(before, { n2: [1, 1] }))).toEqual([]);
  expect(stale(operations.remove(before, { edges: ['e1'] }, () => 'abcdef'))).toEqual(['n2', 'n3']);
  expect(stale({ ...before, code: ['x = 1'] })).toEqual(['n1', 'n2', 'n3']);
  expect(stale({ ...before, code: [] })).toEqual([]);
});

test('pinned rows make a source and all below it stale; rows that are not pinned nothing', () => {
  const before = line();
  const rows = sampleRows(port('n1', 'out', [{ a: 1 }, { a: 2 }], { times: [7, null] }));
  expect(rows).toEqual([{ row: { a: 1 }, time: 7 }, { row: { a: 2 } }]);
  const pinned = withSample(before, 'n1', { rows, pinned: true });
  expect(sampleOf(pinned, 'n1')).toEqual({ rows, pinned: true });
  expect([...staleNodes(before, pinned)].sort()).toEqual(['n1', 'n2', 'n3']);
  expect([...staleNodes(before, withSample(before, 'n1', { rows, pinned: false }))]).toEqual([]);
  expect(withSample(pinned, 'n1', null).samples).toEqual({});
  expect(withSample(before, 'gone', { rows, pinned: true })).toBe(before);
});

test('what is not stale has the same nodes and edges above it, in random pipelines', () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const random = seeded(seed);
    const before = randomPipeline(seed);
    const after = randomEdit(before, random, idsFrom(random));
    const stale = staleNodes(before, after);
    for (const { from, to } of Object.values(after.edges)) {
      if (stale.has(from[0])) expect(stale.has(to[0])).toBe(true);
    }
    for (const id of Object.keys(after.nodes)) {
      if (!stale.has(id)) expect(after.nodes[id]?.params).toEqual(before.nodes[id]?.params);
      if (before.nodes[id] === undefined) expect(stale.has(id)).toBe(true);
    }
  }
});

test('the end is told in words, with where it failed', () => {
  const document = line();
  expect(endingOf(document, preview()).title).toBe('Running');
  const limited = endingOf(document, ended('finished', { limited: ['n1'] }));
  expect([limited.title, limited.tone]).toEqual(['Finished, limited', 'good']);
  expect(limited.notes[0]).toBe('Bids was ended early, so open windows fired.');
  const failed = ended('failed', { message: 'ValueError: mine', node: 'n2', line: 9, code_line: 3, simulated: false });
  expect(endingOf(document, failed).notes).toEqual([
    'ValueError: mine',
    'Time was real, because a source reads from an external system.',
  ]);
  expect(failureOf(document, failed)).toEqual({
    node: 'n2',
    text: 'Dear, line 3 of its Python',
    field: '/params/code',
    line: 3,
  });
  expect(failureOf(document, ended('failed', { node: 'n2', line: 9 }))?.text).toBe('Dear, line 9 of the program');
  expect(failureOf(document, ended('failed', { line: 2, code_line: 2 }))).toMatchObject({ node: null, field: '/code' });
  expect(failureOf(document, ended('failed', { line: 2, code_line: 2 }))?.text).toBe(
    'the shared code, line 2 of its Python',
  );
  expect(failureOf(document, ended('failed'))).toBeNull();
  expect(failureOf(document, ended('stopped', { node: 'n2' }))).toBeNull();
  expect(endingOf(document, ended('lost')).notes[0]).toMatch('has ended');
});
