import { expect, test } from 'vitest';

import type { Happening, HappeningKind } from '../gen/contract';
import { bellLabel, countText, linkOf } from './inbox';

const happening = (kind: HappeningKind, subject: string): Happening => ({
  kind,
  at: 1_000,
  subject,
  name: 'flights',
  text: '',
  is_bad: true,
});

test('what has happened leads to the tab that shows more', () => {
  expect(linkOf(happening('failure', 'j'))).toBe('/jobs/j?tab=exceptions');
  expect(linkOf(happening('checkpoint', 'j'))).toBe('/jobs/j?tab=checkpoints');
  expect(linkOf(happening('deployment', 'p'))).toBe('/pipelines/p');
  expect(linkOf(happening('leader', 'host:1'))).toBe('/jobmanagers');
  expect(linkOf(happening('taskmanager', 'host:1-a'))).toBe('/taskmanagers/host%3A1-a');
});

test('the bell says how many are new', () => {
  expect([countText(7), countText(100)]).toEqual(['7', '99+']);
  expect([bellLabel(0), bellLabel(3)]).toEqual(['What happened: nothing new', 'What happened: 3 new']);
});
