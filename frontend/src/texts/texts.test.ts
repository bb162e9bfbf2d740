// @vitest-environment happy-dom
// Texts and their catalogue.
import { readFileSync } from 'node:fs';

import { render } from '@testing-library/react';
import { createElement } from 'react';
import { afterEach, expect, test } from 'vitest';

import { files, pseudo } from '../../dev/texts.mjs';
import catalogue from './en.json';
import { rich } from './rich';
import { plural, t } from './t';

/** All sources are read. */
const READ_MS = 60_000;

afterEach(() => {
  globalThis.tidemarkTexts = undefined;
});

test('without translations a text is as it stands, with its values', () => {
  expect(t('Vertices')).toBe('Vertices');
  expect(t('{shown} of {all}', { shown: 3, all: 'ten' })).toBe('3 of ten');
  expect([0, 1, 2].map((count) => plural(count, 'one job', '{count} jobs'))).toEqual(['0 jobs', 'one job', '2 jobs']);
});

test('a translation may have the values in another order; a text without one stays English', () => {
  globalThis.tidemarkTexts = { '{shown} of {all}': 'von {all} {shown}', '{count} jobs': '{count} Jobs' };
  expect(t('{shown} of {all}', { shown: 3, all: 10 })).toBe('von 10 3');
  expect(plural(2, 'one job', '{count} jobs')).toBe('2 Jobs');
  expect(t('Vertices')).toBe('Vertices');
});

test('elements stand in a text where the translation has them', () => {
  globalThis.tidemarkTexts = { 'Or {link} here': 'Oder hier {link}' };
  const { container } = render(rich('Or {link} here', { link: createElement('a', null, 'upload') }));
  expect(container.innerHTML).toBe('Oder hier <a>upload</a>');
});

test(
  'the catalogue has the texts of the sources: renew it with `npm run texts`',
  () => {
    for (const [file, contents] of Object.entries(files())) expect(readFileSync(file, 'utf8')).toBe(contents);
  },
  READ_MS,
);

test('the pseudo-locale has accents, keeps the values, and is two fifths longer', () => {
  expect(pseudo('{count} jobs of Flink')).toBe('{count} jööbšé ööf Flííñké');
  const all = Object.keys(catalogue);
  const lengthOf = (some: readonly string[]) => some.join('').replace(/\{\w+\}/g, '').length;
  const longer = lengthOf(all.map(pseudo)) / lengthOf(all);
  expect(longer).toBeGreaterThan(1.35);
  expect(longer).toBeLessThan(1.6);
});
