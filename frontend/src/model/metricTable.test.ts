import { expect, test } from 'vitest';

import { formatMetric, groupMetrics, summarise } from './metricTable';

const metrics = [
  { id: 'Map__v1_2.tide.alarms', values: { 0: 3 } },
  { id: 'Map.numRecordsIn', values: { 0: 5 } },
  { id: 'Map_x.numRecordsIn', values: { 0: 6 } },
  { id: 'numRecordsIn', values: { 0: 7 } },
];

const operators = [
  { id: 'a1', name: 'Map: v1.2', scope: 'Map__v1_2' },
  { id: 'b2', name: 'Map x', scope: 'Map_x' },
  { id: 'c3', name: 'Map', scope: 'Map' },
];

test('metrics stand under their operators in the order of the chain, the task last', () => {
  const groups = groupMetrics(metrics, operators, '');
  expect(groups.map(({ title, rows }) => [title, rows.map(({ name }) => name)])).toEqual([
    ['Map: v1.2', ['tide.alarms']],
    ['Map x', ['numRecordsIn']],
    ['Map', ['numRecordsIn']],
    ['Task', ['numRecordsIn']],
  ]);
});

test('operators of one name have metrics of their own', () => {
  const twins = [
    { id: 'a1', name: 'Map', scope: 'Map' },
    { id: 'b2', name: 'Map', scope: 'Map_2' },
  ];
  const values = { 0: 1 };
  const groups = groupMetrics(
    [
      { id: 'Map_2.n', values },
      { id: 'Map.n', values },
    ],
    twins,
    '',
  );
  expect(groups.map(({ key, title, rows }) => [key, title, rows.map(({ id }) => id)])).toEqual([
    ['a1', 'Map', ['Map.n']],
    ['b2', 'Map', ['Map_2.n']],
  ]);
});

test('the filter looks at whole ids, whatever their case', () => {
  expect(groupMetrics(metrics, operators, ' MAP.NUM')).toEqual([
    { key: 'c3', title: 'Map', rows: [{ id: 'Map.numRecordsIn', name: 'numRecordsIn', values: { 0: 5 } }] },
  ]);
  expect(groupMetrics(metrics, operators, 'nothing')).toEqual([]);
});

test('values read well, and watermarks that are no times are told apart', () => {
  expect([1234567, 0.1 + 0.2, 12.0, true, 'idle'].map(formatMetric)).toEqual([
    '1,234,567',
    '0.3',
    '12',
    'true',
    'idle',
  ]);
  expect([undefined, '-9223372036854775808', '9223372036854775807'].map(formatMetric)).toEqual(['–', '–', 'max']);
});

test('only numbers are summed up', () => {
  expect(summarise({ 0: 1, 2: 4 })).toEqual([1, 4, 5]);
  expect(summarise({ 0: 1, 1: 'x' })).toBeNull();
  expect(summarise({})).toBeNull();
});
