// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, expect, test } from 'vitest';

import type { Vertex } from '../../model/job';
import { Strip } from './JobTimeline';

afterEach(cleanup);

test('the list says in words what the strip shows, the newest first', () => {
  render(
    <MantineProvider>
      <Strip
        vertices={[]}
        timeline={{
          begin: 0,
          is_cut: false,
          now: 10_000,
          states: [
            { state: 'RUNNING', attempt: 0, begin: 0, end: 4_000, cause: '' },
            { state: 'FAILING', attempt: 0, begin: 4_000, end: 5_000, cause: 'no such key' },
            { state: 'RUNNING', attempt: 1, begin: 5_000, end: null, cause: '' },
          ],
          events: [
            { kind: 'savepoint', begin: 1_000, end: 3_000, text: 'savepoint, asked for by alice', is_failed: false },
            { kind: 'failure', begin: 4_000, end: 4_000, text: 'attempt 0 failed: KeyError', is_failed: true },
          ],
          runs: [],
        }}
      />
    </MantineProvider>,
  );
  const items = [...screen.getByLabelText('Timeline, newest first').children].map((item) => item.textContent);
  expect(items).toHaveLength(5);
  expect(items[0]).toMatch(/RUNNINGattempt 1so far 5.s$/);
  expect(items[1]).toContain('attempt 0 failed: KeyError');
  expect(items[2]).toContain('no such key');
  expect(items[3]).toMatch(/savepoint, asked for by alicetook 2.s$/);
  expect(screen.getByText(/^10.s: 2 attempts, 2 events, 1 of them a failure$/)).toBeTruthy();
});

test('the summary says that it does not tell of the whole job', () => {
  const states = [{ state: 'RUNNING' as const, attempt: 400, begin: 50_000, end: null, cause: '' }];
  render(
    <MantineProvider>
      <Strip vertices={[]} timeline={{ begin: 50_000, is_cut: true, now: 60_000, states, events: [], runs: [] }} />
    </MantineProvider>,
  );
  expect(screen.getByText(/^The last 10.s: 1 attempt, 0 events; what was before is no longer kept$/)).toBeTruthy();
});

test('each vertex has a lane in which it lies where it ran', () => {
  const ran = { parallelism: 1, max_parallelism: 128, inputs: [], operators: [] };
  const vertices = [
    { ...ran, id: 's', name: 'source', state: 'FINISHED', start_time: 5_000, end_time: 7_500 },
    { ...ran, id: 'w', name: 'windows', state: 'RUNNING', start_time: 6_000, end_time: -1 },
    { ...ran, id: 'x', name: 'has not started', state: 'CREATED', start_time: -1, end_time: -1 },
  ] as unknown as Vertex[];
  const { container } = render(
    <MantineProvider>
      <Strip
        vertices={vertices}
        timeline={{ begin: 0, is_cut: false, now: 10_000, states: [], events: [], runs: [] }}
      />
    </MantineProvider>,
  );
  const lanes = [...container.querySelectorAll('[data-lane="vertex"]')];
  expect(lanes.map((lane) => lane.textContent)).toEqual(['source', 'windows']);
  const bars = lanes.map((lane) => lane.querySelector<HTMLElement>('[data-tone]'));
  expect(bars.map((bar) => [bar?.style.left, bar?.style.width, bar?.dataset.tone])).toEqual([
    ['50%', '25%', 'done'],
    ['60%', '40%', 'running'],
  ]);
  expect(bars[0]?.title).toMatch(/^source: FINISHED, .*, for [23].s$/);
});

test('runs of earlier attempts lie in the lane of their vertex, and that of a vertex that waits is there', () => {
  const ran = { parallelism: 1, max_parallelism: 128, inputs: [], operators: [] };
  const vertices = [
    { ...ran, id: 's', name: 'source', state: 'RUNNING', start_time: 8_000, end_time: -1 },
    { ...ran, id: 'w', name: 'windows', state: 'CREATED', start_time: -1, end_time: -1 },
  ] as unknown as Vertex[];
  const run = { attempt: 0, state: 'FAILED' as const, begin: 1_000, end: 5_000 };
  const runs = [
    { ...run, vertex: 's' },
    { ...run, vertex: 'w', state: 'CANCELED' as const },
    { ...run, vertex: 'is gone' },
  ];
  const { container } = render(
    <MantineProvider>
      <Strip vertices={vertices} timeline={{ begin: 0, is_cut: false, now: 10_000, states: [], events: [], runs }} />
    </MantineProvider>,
  );
  const lanes = [...container.querySelectorAll('[data-lane="vertex"]')];
  const bars = lanes.map((lane) => [...lane.querySelectorAll<HTMLElement>('[data-tone]')]);
  const told = bars.map((lane) => lane.map((bar) => [bar.style.left, bar.style.width, bar.dataset.tone]));
  expect(told).toEqual([
    [
      ['10%', '40%', 'failed'],
      ['80%', '20%', 'running'],
    ],
    [['10%', '40%', 'stopped']],
  ]);
  expect(bars[0]?.[0]?.title).toMatch(/^source, attempt 0: FAILED, .*, for 4.s$/);
});
