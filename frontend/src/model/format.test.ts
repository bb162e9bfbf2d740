import { expect, test } from 'vitest';

import {
  formatAge,
  formatBytes,
  formatByteRate,
  formatCompact,
  formatCount,
  formatDateTime,
  formatDuration,
  formatRate,
  formatShare,
  formatTime,
  formatTimes,
  formatWatermark,
} from './format';

const plain = (text: string) => text.replaceAll('\u202f', ' ');

test.each([
  [0, '0'],
  [7.5, '7.5'],
  [0.04, '0.0'],
  [840, '840'],
  [999.4, '999'],
  [999.6, '1.00 k'],
  [12_345, '12.3 k'],
  [123_456, '123 k'],
  [999_999, '1.00 M'],
  [1_040_000, '1.04 M'],
  [-1500, '-1.50 k'],
  [null, '–'],
  [Number.NaN, '–'],
])('%s records are %s', (value, text) => {
  expect(plain(formatCompact(value))).toBe(text);
});

test('rates carry their unit, and nothing has none', () => {
  expect(plain(formatRate(2500))).toBe('2.50 k/s');
  expect(formatRate(undefined)).toBe('–');
  expect(plain(formatByteRate(2048))).toBe('2.00 KiB/s');
  expect([plain(formatTimes(1250)), formatTimes(null)]).toEqual(['1.25 k ×', '–']);
});

test.each([
  [0, '0 B'],
  [812, '812 B'],
  [1023.8, '1.00 KiB'],
  [1_268_777, '1.21 MiB'],
  [25_769_803_776, '24.0 GiB'],
  [-1, '–'],
])('%s bytes are %s', (value, text) => {
  expect(plain(formatBytes(value))).toBe(text);
});

test.each([
  [0, '0 ms'],
  [850, '850 ms'],
  [59_999, '59 s'],
  [185_000, '3 m 05 s'],
  [7_620_000, '2 h 07 m'],
  [273_600_000, '3 d 04 h'],
  [-5000, '-5 s'],
])('%s ms are %s', (value, text) => {
  expect(plain(formatDuration(value))).toBe(text);
});

test('an age is calm', () => {
  expect([formatAge(-300), formatAge(1999), plain(formatAge(61_000))]).toEqual([
    'just now',
    'just now',
    '1 m 01 s ago',
  ]);
});

test('exact counts are grouped', () => {
  expect(formatCount(336_776)).toBe('336,776');
});

test('shares are clamped to whole per cents', () => {
  expect([formatShare(0), formatShare(496), formatShare(1003)]).toEqual(['0%', '50%', '100%']);
});

test('times are written the same way everywhere', () => {
  const time = Date.UTC(2013, 0, 5, 8, 3, 9);
  expect(formatTime(time, true)).toBe('08:03:09');
  expect(formatDateTime(time, true)).toBe('2013-01-05 08:03:09');
  expect(formatDateTime(-1, true)).toBe('–');
});

test('a watermark may be missing, at its end, or before 1970', () => {
  expect(formatWatermark(null, true)).toBe('none yet');
  expect(formatWatermark('max', true)).toBe('end of input');
  expect(formatWatermark(-1000, true)).toBe('1969-12-31 23:59:59');
});
