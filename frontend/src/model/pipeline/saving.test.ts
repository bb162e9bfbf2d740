import { expect, test } from 'vitest';

import { whereKept } from './saving';

test('only what is kept in the browser is said to be kept there', () => {
  expect(whereKept('pending', true, null)).toBe('kept in this browser');
  expect(whereKept('saving', true, '14:03')).toBe('kept in this browser');
  expect(whereKept('failed', true, '14:03')).toBe('kept in this browser only');
  expect(whereKept('pending', false, null)).toBe('not saved yet');
  expect(whereKept('saving', false, '14:03')).toBe('not saved yet');
  expect(whereKept('failed', false, '14:03')).toBe('on this page only');
});

test('what the server has is saved, whatever the browser keeps', () => {
  expect(whereKept('saved', false, null)).toBe('saved');
  expect(whereKept('saved', true, '14:03')).toBe('saved 14:03');
});
