import { expect, test } from 'vitest';

import { basePathOf, cookieValue, csrfCookie } from './basePath';

test('the index names the base path with a slash at its end', () => {
  expect(['/', '/tidemark/', '/a/b/', undefined].map(basePathOf)).toEqual(['', '/tidemark', '/a/b', '']);
});

test('each base path has a CSRF cookie of its own', () => {
  expect(['', '/tidemark', '/a/b'].map(csrfCookie)).toEqual(['csrftoken', 'csrftoken-tidemark', 'csrftoken-a-b']);
});

test('a cookie is found by its whole name', () => {
  const cookies = 'csrftoken-tidemark=x; csrftoken=a%20b; xcsrftoken=c';
  expect(cookieValue(cookies, 'csrftoken')).toBe('a b');
  expect(cookieValue(cookies, 'csrf')).toBe('');
});
