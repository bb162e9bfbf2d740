import { expect, test } from 'vitest';

import { searched } from './commandSearch';

const COMMANDS = [
  { group: 'Jobs', title: 'Hot auctions', hint: 'RUNNING' },
  { group: 'Actions', title: 'Save a version' },
  { group: 'Nodes', title: 'Dear auctions' },
  { group: 'Nodes', title: 'Auctions' },
];

const titles = (text: string) => searched(COMMANDS, text).map(({ title }) => title);

test('what begins with the text comes first', () => {
  expect(titles('auc')).toEqual(['Auctions', 'Hot auctions', 'Dear auctions']);
});

test('every word counts, of title, group and hint', () => {
  expect(titles('running auctions')).toEqual(['Hot auctions']);
  expect(titles('nodes dear')).toEqual(['Dear auctions']);
  expect(titles('nothing')).toEqual([]);
});

test('without a text everything is there, in its order', () => {
  expect(titles('  ')).toEqual(COMMANDS.map(({ title }) => title));
});
