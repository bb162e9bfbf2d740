import { expect, test } from 'vitest';

import { mayOperate, maySubmit, safeReturnPath } from './access';

test('operators cancel, developers submit', () => {
  expect([mayOperate('viewer'), mayOperate('operator'), mayOperate('admin')]).toEqual([false, true, true]);
  expect([maySubmit('operator'), maySubmit('developer')]).toEqual([false, true]);
});

test.each([
  ['/jobs/1?tab=logs', '/jobs/1?tab=logs'],
  [null, '/'],
  ['//evil.example', '/'],
  ['/\\evil.example', '/'],
  ['https://evil.example', '/'],
  ['/login?next=/', '/'],
])('a login returns from %j to %s', (next, path) => {
  expect(safeReturnPath(next)).toBe(path);
});
