import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { Sight } from './sight';

let told: string[];
const listeners = new Set<() => void>();

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

function change() {
  for (const listener of [...listeners]) listener();
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('window', globalThis);
  told = [];
  listeners.clear();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('in sight, each change is told at once', () => {
  new Sight().through(subscribe, () => told.push('row'));
  change();
  change();
  expect(told).toEqual(['row', 'row']);
});

test('out of sight, the changes of some seconds are told once, and all who missed them hear together', () => {
  const [row, other] = [new Sight(), new Sight()];
  row.isIn = other.isIn = false;
  row.through(subscribe, () => told.push('row'));
  other.through(subscribe, () => told.push('other'));
  change();
  vi.advanceTimersByTime(3_000);
  change();
  expect(told).toEqual([]);
  vi.advanceTimersByTime(1_000);
  expect(told).toEqual(['row', 'other']);
  vi.advanceTimersByTime(60_000);
  expect(told).toHaveLength(2);
});

test('what comes into sight hears at once what it has missed', () => {
  const sight = new Sight();
  sight.isIn = false;
  sight.through(subscribe, () => told.push('row'));
  change();
  sight.isIn = true;
  expect(told).toEqual(['row']);
  vi.advanceTimersByTime(60_000);
  expect(told).toHaveLength(1);
});

test('who has left hears nothing any more', () => {
  const sight = new Sight();
  sight.isIn = false;
  const leave = sight.through(subscribe, () => told.push('row'));
  change();
  leave();
  sight.isIn = true;
  vi.advanceTimersByTime(60_000);
  expect(told).toEqual([]);
});
