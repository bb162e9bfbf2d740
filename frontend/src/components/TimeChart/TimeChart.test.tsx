// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, expect, test } from 'vitest';

import type { Mark } from '../../model/history';
import { TimeChart } from './TimeChart';

const NOW = 1_700_000_000_000;

afterEach(cleanup);

/** The y of each point of the line, and the labels of the axis. */
function drawn(values: readonly (number | null)[], marks: readonly Mark[] = []) {
  const times = values.map((_, index) => NOW + 30_000 * index);
  render(
    <MantineProvider>
      <TimeChart
        title="Lag"
        times={times}
        windowMs={600_000}
        marks={marks}
        format={String}
        series={[{ name: 'Lag', values }]}
      />
    </MantineProvider>,
  );
  const image = screen.getByRole('img');
  const path = image.querySelector('path')?.getAttribute('d') ?? '';
  const labels = image.parentElement?.querySelectorAll('[aria-hidden] span') ?? [];
  return {
    path,
    heights: [...path.matchAll(/[ML][\d.]+ ([-\d.]+)/g)].map(([, y]) => Number(y)),
    axis: [...labels].map(({ textContent }) => textContent),
    image,
  };
}

test('an axis begins at zero', () => {
  const { axis, heights } = drawn([0, 5, 10]);
  expect(axis).toEqual(['10', '5', '0']);
  expect(heights).toEqual([120, 60, 0]);
});

test('values below zero are within the chart', () => {
  const { axis, heights } = drawn([-20, 0, 20]);
  expect(axis).toEqual(['20', '0', '-20']);
  expect(heights).toEqual([120, 60, 0]);
  cleanup();
  const negative = drawn([-20, -10]);
  expect(negative.axis).toEqual(['0', '-20']);
  expect(negative.heights).toEqual([120, 60]);
});

test('a value between two gaps is a dot', () => {
  expect(drawn([null, 5, null]).path).toMatch(/^M[\d.]+ [\d.]+h0$/);
});

test('what comes after the last value, as the failure that has ended a job, is marked', () => {
  const { image } = drawn([1, 2], [{ time: NOW + 34_000, text: 'attempt 1 failed', isFailed: true }]);
  const mark = [...image.querySelectorAll('line')].find((line) => line.textContent === 'attempt 1 failed');
  expect(Number(mark?.getAttribute('x1'))).toBe(600);
});
