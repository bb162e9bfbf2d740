import { expect, test } from 'vitest';

import { planLines } from './plan';

test('a chain drawn as a tree becomes its operators', () => {
  const flink = '[6]:Window(size=[5 s])<br/>+- [7]:Calc(select=[k])<br/>   +- s[8]: Writer<br/>';
  expect(planLines(flink)).toEqual(['Window(size=[5 s])', 'Calc(select=[k])', 'Writer']);
});

test('a chain on one line does too, and entities are read', () => {
  expect(planLines('Source: flights -> Map &amp; Filter -&gt; x')).toEqual(['Source: flights', 'Map & Filter -> x']);
});

test('an empty description has no lines', () => {
  expect(planLines('')).toEqual([]);
});
