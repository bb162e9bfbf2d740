import { expect, test } from 'vitest';

import { edgeText } from './edgeText';

const lines = (text: string) => text.replaceAll('\u202f', ' ').split('\n');

test('an edge between tasks has bytes a second, and what waits', () => {
  const text = edgeText({ records: 1_500, bytesPerSecond: 500, queuedBytes: 64, queuedBuffers: 3 });
  expect(lines(text)).toEqual(['1,500 records', '500 B/s', '64 B queued, buffers: 3']);
});

test('what is not known is left out, and a chain says that nothing waits there', () => {
  const unknown = { records: 7, bytesPerSecond: null, queuedBytes: null, queuedBuffers: null };
  expect(lines(edgeText(unknown))).toEqual(['7 records']);
  expect(lines(edgeText({ ...unknown, isChained: true }))[1]).toBe('In one task: nothing is sent, nothing waits');
});
