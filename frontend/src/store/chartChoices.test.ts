// @vitest-environment happy-dom
import { beforeEach, expect, test } from 'vitest';

import { NO_CHOICE, chartChoice, chooseCharts, forgetChartChoices } from './chartChoices';

beforeEach(() => {
  localStorage.clear();
  forgetChartChoices();
});

test('each user has a choice for each job, which survives a reload', () => {
  chooseCharts('alice', 'a', { compare: ['v'] });
  chooseCharts('alice', 'a', { window: '1h' });
  chooseCharts('bob', 'a', { metrics: { v: ['m'] } });
  forgetChartChoices();
  expect(chartChoice('alice', 'a')).toEqual({ window: '1h', compare: ['v'], metrics: {} });
  expect(chartChoice('alice', 'b')).toEqual(NO_CHOICE);
  expect(chartChoice('bob', 'a').metrics).toEqual({ v: ['m'] });
});

test('of many jobs those that were looked at last are kept', () => {
  for (let job = 0; job < 60; job += 1) chooseCharts('alice', String(job), { window: '1h' });
  chooseCharts('alice', '15', { window: '24h' });
  chooseCharts('alice', 'one more', { window: '1h' });
  forgetChartChoices();
  expect(['10', '11', '15', '59'].map((job) => chartChoice('alice', job).window)).toEqual([null, '1h', '24h', '1h']);
});

test.each(['no JSON', '{}', '[["a", null], 7, ["a"], [5, {}]]'])('what is malformed is no choice: %s', (stored) => {
  localStorage.setItem('tidemark.charts.alice', stored);
  expect(chartChoice('alice', 'a')).toEqual(NO_CHOICE);
});

test('what is malformed in a choice is left out', () => {
  localStorage.setItem('tidemark.charts.alice', '[["a", {"window": 5, "compare": ["v", 3], "metrics": {"v": "m"}}]]');
  expect(chartChoice('alice', 'a')).toEqual({ window: null, compare: ['v'], metrics: { v: [] } });
});
