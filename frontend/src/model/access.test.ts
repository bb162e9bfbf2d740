import { expect, test } from 'vitest';

import { isAdminPath, mayOperate, maySubmit, safeReturnPath } from './access';

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
  ['/\t/evil.example', '/'],
  ['/\n\\evil.example', '/'],
  ['//', '/'],
  ['/login?next=/', '/'],
  ['/.//evil.example', '/'],
  ['/jobs/../login', '/'],
  ['/admin/../jobs/1/yarn-cancel', '/jobs/1/yarn-cancel'],
  ['/admin/%2e%2E/jars/1/plan', '/jars/1/plan'],
  ['/admin/\\..\\..\\jars/1/plan', '/jars/1/plan'],
])('a login returns from %j to %s', (next, path) => {
  expect(safeReturnPath(next)).toBe(path);
});

test('a login that the admin asked for leads back to it, and to nothing that is only called alike', () => {
  expect(['/admin', '/admin/', '/admin/cluster/job/?state=RUNNING'].map(isAdminPath)).toEqual([true, true, true]);
  expect(['/', '/administration', '/jobs/admin/'].map(isAdminPath)).toEqual([false, false, false]);
});
