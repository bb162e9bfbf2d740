// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, test } from 'vitest';

import type { CheckpointTrace } from '../../gen/contract';
import { checkpointTrace, subtaskTrace } from '../../model/testData';
import { Gantt } from './CheckpointGantt';

afterEach(cleanup);

function page(traces: readonly CheckpointTrace[], address = '/') {
  return (
    <MantineProvider>
      <MemoryRouter initialEntries={[address]}>
        <Gantt traces={traces} />
      </MemoryRouter>
    </MantineProvider>
  );
}

function show(traces: readonly CheckpointTrace[], address = '/') {
  return render(page(traces, address));
}

const rows = () => screen.getAllByRole('button', { name: /^Checkpoint/ });

test('a row says in words what its bar shows', () => {
  show([checkpointTrace(7, { lost_in: { phase: 'alignment', duration: 700 } })]);
  const name = rows()[0]?.textContent ?? '';
  expect(name).toContain('Checkpoint 7');
  expect(name).toContain('COMPLETED');
  expect(name).toMatch(/Start Delay 20.ms, Alignment 700.ms/);
  expect(name).toMatch(/Alignment 700.ms$/);
});

test('a link opens its checkpoints, also one beyond those that are shown at first', () => {
  const ids = Array.from({ length: 20 }, (_, index) => 30 - index);
  show(
    ids.map((id) => checkpointTrace(id)),
    '/?phases=29,12',
  );
  const open = rows().filter((row) => row.getAttribute('aria-expanded') === 'true');
  expect(open.map((row) => /Checkpoint \d+/.exec(row.textContent)?.[0])).toEqual(['Checkpoint 29', 'Checkpoint 12']);
  fireEvent.click(screen.getByRole('button', { name: /^Checkpoint 29/ }));
  expect(rows().filter((row) => row.getAttribute('aria-expanded') === 'true')).toHaveLength(1);
});

test('one that failed and one that goes on are told apart by words', () => {
  const running = checkpointTrace(9, { status: 'IN_PROGRESS', duration: undefined, num_acknowledged_subtasks: 3 });
  show([running, checkpointTrace(8, { status: 'FAILED', num_acknowledged_subtasks: 1 })]);
  expect(rows().map((row) => /IN PROGRESS|FAILED/.exec(row.textContent)?.[0])).toEqual(['IN PROGRESS', 'FAILED']);
  expect(rows()[1]?.textContent).toContain('1 of 4 acknowledged');
});

test('an open row lists its subtasks, the slowest first, with the phase that took longest', () => {
  const late = subtaskTrace({ index: 3 });
  const quick = subtaskTrace({ index: 1, end_to_end_duration: 5, phases: { sync: 5 } });
  show([checkpointTrace(7, { subtasks: [late, quick], text: '0.7 s of 0.8 s in subtask 3 of Window' })]);
  const [row] = rows();
  if (row === undefined) throw new Error('no row');
  fireEvent.click(row);
  expect(row.getAttribute('aria-expanded')).toBe('true');
  const list = screen.getByRole('list', { name: 'Subtasks of checkpoint 7, slowest first' });
  const [first] = within(list).getAllByRole('listitem');
  expect(first?.textContent).toContain('subtask 3');
  expect(first?.textContent).toMatch(/Alignment 700.ms \(longest\)/);
  expect(screen.getByText(/in subtask 3 of Window/)).toBeTruthy();
  expect(screen.getByText(/2 more subtasks/)).toBeTruthy();
});

test('the newest one is open while it is followed, until it is closed', () => {
  const open = () => rows().map((row) => row.getAttribute('aria-expanded'));
  const { rerender } = show([checkpointTrace(7)]);
  expect(open()).toEqual(['false']);
  fireEvent.click(screen.getByRole('switch', { name: 'Follow newest' }));
  expect(open()).toEqual(['true']);
  rerender(page([checkpointTrace(8), checkpointTrace(7)]));
  expect(open()).toEqual(['true', 'false']);
  fireEvent.click(rows()[0] as Element);
  expect(open()).toEqual(['false', 'false']);
  rerender(page([checkpointTrace(9), checkpointTrace(8), checkpointTrace(7)]));
  expect(open()).toEqual(['false', 'false', 'false']);
});

test('a subtask that has not acknowledged shows no phases', () => {
  const missing = subtaskTrace({ end_to_end_duration: undefined, phases: {} });
  show([checkpointTrace(7, { status: 'FAILED', failure_message: 'it expired', subtasks: [missing] })]);
  rows().forEach((row) => fireEvent.click(row));
  expect(screen.getByText('Not acknowledged')).toBeTruthy();
  expect(screen.getByText('it expired')).toBeTruthy();
});

test('arrow keys go from row to row', () => {
  show([3, 2, 1].map((id) => checkpointTrace(id)));
  const [first, second, third] = rows();
  first?.focus();
  fireEvent.keyDown(first as Element, { key: 'ArrowDown' });
  expect(document.activeElement).toBe(second);
  fireEvent.keyDown(second as Element, { key: 'End' });
  expect(document.activeElement).toBe(third);
  fireEvent.keyDown(third as Element, { key: 'ArrowDown' });
  expect(document.activeElement).toBe(third);
});

test('all of them are shown on demand', () => {
  show(Array.from({ length: 14 }, (_, index) => checkpointTrace(14 - index)));
  const list = screen.getByLabelText('Last checkpoints, newest first');
  expect(list.children).toHaveLength(12);
  fireEvent.click(screen.getByText('Show the last 14'));
  expect(list.children).toHaveLength(14);
});
