import { expect, test } from 'vitest';

import { PatchError, applyPatch } from './jsonPatch';

const DOCUMENT = { nodes: { 'a/b': { params: { keys: ['x', 'y'] } } }, edges: {} };

test('steps change a copy, one after the other', () => {
  const changed = applyPatch(DOCUMENT, [
    { op: 'add', path: '/nodes/a~1b/params/keys/1', value: 'new' },
    { op: 'replace', path: '/nodes/a~1b/params/keys/0', value: 'first' },
    { op: 'add', path: '/nodes/a~1b/params/keys/-', value: 'last' },
    { op: 'add', path: '/edges/e1', value: { to: null } },
    { op: 'test', path: '/edges/e1/to', value: null },
    { op: 'copy', from: '/nodes/a~1b', path: '/nodes/c' },
    { op: 'remove', path: '/nodes/a~1b/params/keys/1' },
  ]);
  expect(changed).toEqual({
    nodes: {
      'a/b': { params: { keys: ['first', 'y', 'last'] } },
      c: { params: { keys: ['first', 'new', 'y', 'last'] } },
    },
    edges: { e1: { to: null } },
  });
  expect(DOCUMENT.nodes['a/b'].params.keys).toEqual(['x', 'y']);
});

test.each([
  { op: 'test', path: '/edges', value: 1 },
  { op: 'replace', path: '/gone/x', value: 1 },
  { op: 'add', path: '/nodes/a~1b/params/keys/9', value: 1 },
  { op: 'spoil', path: '/edges' },
])('a step that cannot be done is refused: %j', (step) => {
  expect(() => applyPatch(DOCUMENT, [step])).toThrow(PatchError);
});
