import { expect, test } from 'vitest';

import type { MetricHistory, TimelineEvent } from '../gen/contract';
import {
  EDGE,
  HISTORY_MS,
  KEPT,
  type Sample,
  VERTEX,
  edgeSampleOf,
  isLive,
  marksOf,
  merged,
  niceBytes,
  niceCeiling,
  niceCount,
  niceDuration,
  record,
  sampleOf,
  samplesOf,
  seriesOf,
  speedsOf,
  statistics,
  windowOf,
} from './history';
import { formatDuration } from './format';
import { metrics } from './testData';

test('at most one sample a second is kept', () => {
  const at = (time: number, busy: number) => sampleOf(metrics({ busy }), null, null, time);
  const one = record([], at(1_000, 1));
  expect(record(one, at(1_500, 2))).toBe(one);
  expect(record(one, at(2_000, 2)).map((sample) => sample.busy)).toEqual([1, 2]);
});

test('what is older than the window is dropped', () => {
  const at = (time: number) => sampleOf(metrics(), null, null, time);
  const history = record(record([], at(0)), at(HISTORY_MS));
  expect(history).toHaveLength(2);
  expect(record(history, at(HISTORY_MS + 1_000))).toHaveLength(2);
});

function watermarks(at: Record<number, number | 'max' | null>, lag: number | null = null): readonly Sample[] {
  return Object.entries(at).map(([time, watermark]) => sampleOf(metrics({ watermark }), lag, null, Number(time)));
}

test('event time is as fast as it was over the last ten seconds', () => {
  const steady = watermarks({ 0: 0, 5_000: 0, 10_000: 30_000, 15_000: 30_000, 20_000: 60_000, 80_000: 120_000 });
  expect(speedsOf(steady)).toEqual([null, null, 3, 3, 3, 1]);
});

test('nothing is known of the speed behind a gap, a setback or the end', () => {
  const broken = watermarks({ 0: 0, 10_000: 10_000, 20_000: null, 30_000: 90_000, 40_000: 5_000, 50_000: 25_000 });
  expect(speedsOf(broken)).toEqual([null, 1, null, null, null, 2]);
  expect(speedsOf(watermarks({ 0: 0, 10_000: 'max' }))).toEqual([null, null]);
});

test('the last sample with a watermark says whether sources are live', () => {
  const seen = [...watermarks({ 0: 1 }, 7), ...watermarks({ 1_000: null })];
  expect(isLive(seen)).toBe(true);
  expect(isLive([...seen, ...watermarks({ 2_000: 3 })])).toBe(false);
  expect(isLive([])).toBe(false);
});

test('statistics skip gaps', () => {
  expect(statistics([null, 2, 4])).toEqual({ min: 2, average: 3, max: 4 });
  expect(statistics([null])).toBeNull();
});

test.each([
  [0, 1],
  [0.3, 0.5],
  [7, 10],
  [1000, 1000],
  [1001, 2000],
])('an axis for %s ends at %s', (value, top) => {
  expect(niceCeiling(value)).toBeCloseTo(top);
});

test('an axis of bytes is round in its own unit', () => {
  expect([7, 120 * 1024, 3 * 1024 * 1024].map(niceBytes)).toEqual([10, 200 * 1024, 5 * 1024 * 1024]);
});

test('in the middle of an axis of counts is a whole number', () => {
  expect([0, 1, 3, 5, 70].map(niceCount)).toEqual([2, 2, 4, 10, 100]);
});

test('an axis of durations, and its middle, are round in the unit in which they are shown', () => {
  const tops = [0, 5, 150, 3_000, 45_000, 130_000, 5_000_000, 50_000_000, 40 * 86_400_000].map(niceDuration);
  const shown = tops.map((top) => [top, top / 2].map(formatDuration).join(' '));
  expect(shown.map((text) => text.replaceAll('\u202f', ''))).toEqual([
    '2ms 1ms',
    '10ms 5ms',
    '200ms 100ms',
    '4s 2s',
    '1m 00s 30s',
    '4m 00s 2m 00s',
    '2h 00m 1h 00m',
    '2d 00h 1d 00h',
    '40d 00h 20d 00h',
  ]);
});

test('a clock that was set back costs what was later, and no sample from then on', () => {
  const at = (second: number) => sampleOf(metrics({ busy: 1 }), null, null, second * 1_000);
  const history = [100, 200, 300].map(at).reduce<readonly Sample[]>(record, []);
  expect(record(history, at(250)).map(({ time }) => time / 1_000)).toEqual([100, 200, 250]);
  expect(record(history, at(50)).map(({ time }) => time / 1_000)).toEqual([50]);
  // a message has only taken longer
  expect(record(history, at(295))).toBe(history);
});

/** Samples that are that busy, by their times. */
function samples(busy: Record<number, number | null>): readonly Sample[] {
  const told = Object.entries(busy);
  const series = { 'v.x.busy': told.map(([, value]) => value) };
  return samplesOf(
    history(
      told.map(([time]) => Number(time)),
      series,
    ),
    VERTEX,
    'x',
  );
}

function history(times: number[], series: MetricHistory['series']): MetricHistory {
  return { is_available: true, begin: 0, end: 0, step: 5_000, times, series, events: [] };
}

const busyAt = (found: readonly Sample[]) => Object.fromEntries(found.map(({ time, busy }) => [time, busy]));

test('the samples of the server are those of the page', () => {
  const names = seriesOf('x', VERTEX).split(',');
  expect(names).toHaveLength(10);
  const told = history([9_000], Object.fromEntries(names.map((name, index) => [name, [index + 1]])));
  const row = metrics({
    records_in_per_second: 1,
    records_out_per_second: 2,
    bytes_in_per_second: 3,
    bytes_out_per_second: 4,
    busy: 5,
    back_pressured: 6,
    idle: 7,
    watermark: 8,
  });
  expect(samplesOf(told, VERTEX, 'x')).toEqual([sampleOf(row, 9, 10, 9_000)]);
});

test('edges have a history of their own, which goes on likewise', () => {
  const names = seriesOf('7', EDGE).split(',');
  const told = history([5_000], Object.fromEntries(names.map((name, index) => [name, [index + 1]])));
  const earlier = samplesOf(told, EDGE, '7');
  const of = { records_sent: 0, records_received: 0, watermark: null };
  const row = { ...of, records_per_second: 1, bytes_per_second: 2, queued_bytes: 3, queued_buffers: 4 };
  expect(earlier).toEqual([edgeSampleOf(row, 5_000)]);
  const seen = [edgeSampleOf({ ...row, queued_bytes: 9 }, 10_000)];
  expect(merged(earlier, seen, 5_000, HISTORY_MS).map(({ queuedBytes }) => queuedBytes)).toEqual([3, 9]);
});

test('several subjects are asked for at once', () => {
  expect(seriesOf('x', VERTEX, KEPT).split(',')).toEqual(
    expect.arrayContaining(['v.x.busy', 'v.x.pending_records', 'v.x.late_records_per_second', 'v.x.state_size']),
  );
});

test('what the server does not know has no value', () => {
  const [sample] = samplesOf(history([9_000], { 'v.x.watermark_lag': [null], 'v.x.busy': [null] }), VERTEX, 'x');
  expect(sample).toMatchObject({ time: 9_000, busy: null, idle: null, lag: null });
});

test('the history goes on with what the page sees', () => {
  const earlier = samples({ 5_000: 1, 10_000: 2, 15_000: 3 });
  const seen = samples({ 12_000: 7, 13_000: 8, 14_000: 9 });
  expect(busyAt(merged(earlier, seen, 5_000, HISTORY_MS))).toEqual({
    5_000: 1,
    12_000: 7,
    13_000: 8,
    14_000: 9,
  });
  expect(merged(earlier, [], 5_000, HISTORY_MS)).toEqual(earlier);
  expect(merged([], seen, 0, HISTORY_MS)).toEqual(seen);
});

test('the server fills up what a tab that slept has not seen, and says where it knows nothing either', () => {
  const seen = samples({ 1_000: 1, 2_000: 1, 60_000: 2 });
  const earlier = samples({ 0: 9, 5_000: 9, 10_000: 8, 15_000: null, 40_000: 7, 58_000: 9 });
  expect(busyAt(merged(earlier, seen, 5_000, HISTORY_MS))).toEqual({
    1_000: 1,
    2_000: 1,
    10_000: 8,
    15_000: null,
    40_000: 7,
    60_000: 2,
  });
});

test('no line is drawn over an outage, and a reload breaks the curve at the same place', () => {
  // the server's marker is near what the page has seen last
  const kept = samples({ 0: 1, 5_000: 1, 10_000: null, 60_000: 2, 65_000: 2 });
  const seen = samples({ 4_000: 1, 5_000: 1, 6_000: 1, 60_000: 2, 65_000: 2 });
  const reloaded = merged(kept, samples({ 65_000: 2 }), 5_000, HISTORY_MS);
  expect(busyAt(reloaded)).toEqual({ 0: 1, 5_000: 1, 10_000: null, 60_000: 2, 65_000: 2 });
  expect(busyAt(merged(kept, seen, 5_000, HISTORY_MS))).toEqual({
    4_000: 1,
    5_000: 1,
    6_000: 1,
    11_000: null,
    60_000: 2,
    65_000: 2,
  });
  expect(merged([], samples({ 0: 1, 15_000: 2 }), 5_000, HISTORY_MS)).toHaveLength(2);
});

test('minutes are joined where the server has no more, also with what the page has seen', () => {
  const kept = samples({ 0: 1, 60_000: 2, 120_000: 3, 180_000: 4 });
  const found = busyAt(merged(kept, samples({ 181_000: 5 }), 5_000, HISTORY_MS));
  expect(found).toEqual({ 0: 1, 60_000: 2, 120_000: 3, 181_000: 5 });
});

test('a reload shows the same curve', () => {
  const kept = Object.fromEntries(Array.from({ length: 120 }, (_, index) => [index * 5_000, index]));
  const seen = Object.fromEntries(Array.from({ length: 600 }, (_, index) => [index * 1_000, Math.floor(index / 5)]));
  const before = busyAt(merged(samples(kept), samples(seen), 5_000, HISTORY_MS));
  const after = busyAt(merged(samples(kept), samples({ 596_000: 119 }), 5_000, HISTORY_MS));
  for (const [time, value] of Object.entries(after)) expect(before[Number(time)]).toBe(value);
});

test('averages of the server are of more than the page has seen', () => {
  const earlier = samples({ 43_000: 1, 129_000: 3 });
  const seen = samples({ 130_000: 50, 200_000: 4, 250_000: 6 });
  const found = busyAt(merged(earlier, seen, 86_400, 24 * 3_600_000));
  expect(found).toEqual({ 43_000: 1, 129_000: 3, 225_000: 5 });
});

test('what is before the window is left out', () => {
  const all = samples({ 0: 1, 5_000: 2, 610_000: 3 });
  expect(merged(all, [], 5_000, HISTORY_MS).map(({ time }) => time)).toEqual([610_000]);
  expect(merged([], [], 5_000, HISTORY_MS)).toEqual([]);
});

test('a window that nobody knows is the shortest one', () => {
  expect([windowOf('24h').ms, windowOf('1y').ms, windowOf(null).ms]).toEqual([86_400_000, HISTORY_MS, HISTORY_MS]);
});

test('failures and what was asked for are marked, and only the checkpoints that failed', () => {
  const event = (kind: TimelineEvent['kind'], is_failed = false): TimelineEvent => ({
    kind,
    begin: 5,
    end: null,
    text: kind,
    is_failed,
  });
  const events = [event('checkpoint'), event('checkpoint', true), event('rescale'), event('failure', true)];
  expect(marksOf(events)).toEqual([
    { time: 5, text: 'checkpoint', isFailed: true },
    { time: 5, text: 'rescale', isFailed: false },
    { time: 5, text: 'failure', isFailed: true },
  ]);
});
