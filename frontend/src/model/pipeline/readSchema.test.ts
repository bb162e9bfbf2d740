import { describe, expect, it } from 'vitest';

import { addType } from './declarations';
import type { Json, PipelineDocument } from './document';
import * as history from './history';
import { type FoundSchema, declaredColumns, isAsFound, proposedChanges, takenOver } from './readSchema';
import { line } from './testPipelines';

const FOUND: FoundSchema = {
  field: '/params/type',
  row: 'row<"id": long, "item": string>',
  columns: [
    ['id', 'long'],
    ['item', 'string'],
  ],
  fingerprint: 'f00d',
  read_at: 1_790_000_000_000,
};

function declaring(type: Json, params: Record<string, Json> = {}): PipelineDocument {
  const document = line();
  const node = document.nodes.n1;
  if (node === undefined) throw new Error('n1');
  return { ...document, nodes: { ...document.nodes, n1: { ...node, params: { ...params, type } } } };
}

describe('read schema', () => {
  it('says what is added, dropped, and of another type', () => {
    const before = declaring([
      ['id', 'string'],
      ['gone', 'long'],
    ]);
    const changes = proposedChanges(before, 'n1', FOUND).map(({ column, change }) => `${change} ${column.name}`);
    expect(changes).toEqual(['type id', 'added item', 'dropped gone']);
    expect(isAsFound(before, 'n1', FOUND)).toBe(false);
  });

  it('adds all columns where none are declared', () => {
    for (const before of [declaring([]), line()]) {
      expect(declaredColumns(before, 'n1', FOUND.field)).toBeNull();
      expect(proposedChanges(before, 'n1', FOUND).map(({ change }) => change)).toEqual(['added', 'added']);
    }
  });

  it('is taken over in one change, and nothing else of the node is touched', () => {
    const before = declaring([], { paths: ['/data'] });
    const after = takenOver(before, 'n1', FOUND);
    expect(after.nodes.n1?.params).toEqual({ paths: ['/data'], type: FOUND.columns });
    expect(after.nodes.n1?.schema).toEqual({ row: FOUND.row, read_at: FOUND.read_at, fingerprint: 'f00d' });
    expect(after.nodes.n2).toBe(before.nodes.n2);
    expect(isAsFound(after, 'n1', FOUND)).toBe(true);
    const done = history.record(history.startHistory(before, null), {
      label: 'Read the columns',
      document: after,
      selection: null,
      now: 0,
    });
    expect(history.undo(done).present).toBe(before);
    expect(history.redo(history.undo(done)).present).toBe(after);
  });

  it('knows the same columns in another order from those that were found', () => {
    const swapped = declaring([
      ['item', 'string'],
      ['id', 'long'],
    ]);
    expect(isAsFound(swapped, 'n1', FOUND)).toBe(false);
  });

  it('compares with the columns of a type of the pipeline, and leaves that type alone', () => {
    const { document, name } = addType(line(), [['id', 'long']]);
    const node = document.nodes.n1;
    if (node === undefined) throw new Error('n1');
    const named = { ...document, nodes: { ...document.nodes, n1: { ...node, params: { type: name } } } };
    expect(proposedChanges(named, 'n1', FOUND).map(({ change }) => change)).toEqual(['same', 'added']);
    const after = takenOver(named, 'n1', FOUND);
    expect(after.types).toBe(named.types);
    expect(after.nodes.n1?.params.type).toEqual(FOUND.columns);
    // a type that is not there declares nothing
    expect(declaredColumns(declaring('other'), 'n1', FOUND.field)).toBeNull();
  });

  it('reaches a field of a choice', () => {
    const found = { ...FOUND, field: '/params/recording/type' };
    const before = declaring('x', { recording: { kind: 'files', paths: ['/data'] } });
    const after = takenOver(before, 'n1', found);
    expect(after.nodes.n1?.params.recording).toEqual({ kind: 'files', paths: ['/data'], type: FOUND.columns });
    expect(after.nodes.n1?.params.type).toBe('x');
  });
});
