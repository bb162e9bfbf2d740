import { expect, test } from 'vitest';

import { applyMergePatch } from './mergePatch';

// the table of RFC 7386, appendix A
const cases: [unknown, unknown, unknown][] = [
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [
    ['a', 'b'],
    ['c', 'd'],
    ['c', 'd'],
  ],
  [{ a: 'b' }, ['c'], ['c']],
  [{ a: 'foo' }, null, null],
  [{ a: 'foo' }, 'bar', 'bar'],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: 'b', c: null }, { a: 'b' }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
];

test.each(cases)('%j patched with %j is %j', (target, patch, result) => {
  expect(applyMergePatch(target, patch)).toEqual(result);
});

test('what the patch does not name keeps its identity, and the target is not touched', () => {
  const target = { kept: { deep: 1 }, changed: { x: 1 } };
  const result = applyMergePatch(target, { changed: { x: 2 } }) as typeof target;
  expect(result.kept).toBe(target.kept);
  expect(target.changed.x).toBe(1);
});

test('a key named __proto__ changes no prototype', () => {
  const result = applyMergePatch({}, JSON.parse('{"__proto__": {"polluted": true}}')) as { polluted?: unknown };
  expect(result.polluted).toBeUndefined();
});
