import { expect, test } from 'vitest';

import { leftOutText } from './leftOut';

test('the places are told, up to as many as can be read', () => {
  expect(leftOutText(['/settings/options/my.api-key', '/nodes/n1/params/url'])).toBe(
    'Users, passwords and other secrets were left out of /settings/options/my.api-key, /nodes/n1/params/url',
  );
  const many = Array.from({ length: 1000 }, (_, index) => `/samples/n1/rows/${index}/0/token`);
  expect(leftOutText(many)).toMatch(/rows\/7\/0\/token and 992 more$/);
  expect(leftOutText(many)).not.toMatch('rows/8/');
});
