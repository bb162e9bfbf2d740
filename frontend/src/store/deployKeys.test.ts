// @vitest-environment happy-dom
import { expect, test } from 'vitest';

import { deployKey, dropDeployKey } from './deployKeys';

test('a wish has one key until it is granted', () => {
  const key = deployKey('p', { version: 2 });
  expect(key.length).toBeGreaterThanOrEqual(8);
  expect(deployKey('p', { version: 2 })).toBe(key);
  expect(deployKey('q', { version: 2 })).not.toBe(key);
  dropDeployKey('p');
  expect(deployKey('p', { version: 2 })).not.toBe(key);
});

test('another wish has another key', () => {
  expect(deployKey('p', { version: 3 })).not.toBe(deployKey('p', { version: 3, keeps_state: false }));
});
