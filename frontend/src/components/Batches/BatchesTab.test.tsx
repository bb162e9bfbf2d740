// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, test } from 'vitest';

import type { Batch } from '../../gen/contract';
import { BatchTable } from './BatchesTab';

afterEach(cleanup);

function batch(checkpoint: number, changed: Partial<Batch> = {}): Batch {
  return {
    checkpoint,
    region: 'a'.repeat(32),
    name: 'Source: flights',
    number: checkpoint - 1,
    kind: 'data',
    time: 1_700_000_000_000,
    read_records: 12_000,
    write_records: 34,
    splits: 1,
    caught_up: false,
    duration: 2_400,
    phases: { plan: 50, run: 2_300, store: 30, commit: 20 },
    spark_phases: {},
    positions: [],
    ...changed,
  };
}

function show(batches: readonly Batch[], address = '/') {
  render(
    <MantineProvider>
      <MemoryRouter initialEntries={[address]}>
        <BatchTable batches={batches} />
      </MemoryRouter>
    </MantineProvider>,
  );
}

const cells = (row: number) =>
  within(screen.getAllByRole('row')[row] ?? document.body)
    .getAllByRole('cell')
    .map(({ textContent }) => textContent);

test('a row has the records, their rate, and in words what its bar shows', () => {
  show([batch(7)]);
  const [number, kind, , read, written, rate, phases] = cells(1);
  expect([number?.trim(), kind, read, written]).toEqual(['6', 'Batch', '12,000', '34']);
  expect(rate).toMatch(/^5\.00.k\/s$/);
  expect(phases).toMatch(/Plan 50.ms, Run 2\.3.s, Store 30.ms, Commit 20.ms/);
});

test('a savepoint is told from a batch, and has read nothing', () => {
  show([batch(8, { kind: 'snapshot', number: undefined, read_records: 0, write_records: 0 }), batch(7)]);
  const [number, kind, , , , rate] = cells(1);
  expect([number?.trim(), kind, rate]).toEqual(['–', 'Savepoint', '–']);
});

test('an open row has the phases of Spark and the positions of the splits', () => {
  const position = {
    vertex: 'b'.repeat(32),
    name: 'Source: flights',
    index: 1,
    split: 'flights.csv',
    position: '4096',
  };
  show([batch(7, { spark_phases: { walCommit: 12 }, positions: [position], caught_up: true })]);
  expect(screen.queryByText('walCommit')).toBeNull();
  fireEvent.click(screen.getByRole('button', { name: 'Batch of checkpoint 7, details' }));
  expect(screen.getByText('walCommit').nextSibling?.textContent).toMatch(/^12.ms$/);
  expect(screen.getByRole('list', { name: 'Positions behind the batch' }).textContent).toContain(
    'subtask 1 flights.csv 4096',
  );
  expect(screen.getByText('Nothing left')).toBeTruthy();
  expect(screen.getByRole('link', { name: '7' }).getAttribute('href')).toBe('/?tab=checkpoints&phases=7');
});

test('a job whose regions have batches of their own says which', () => {
  show([batch(7), batch(7, { region: 'c'.repeat(32), name: 'Source: buses' })]);
  expect(screen.getByText('Source: buses')).toBeTruthy();
});

test('a job without any says when there will be one', () => {
  show([]);
  expect(screen.getByText('No batch yet')).toBeTruthy();
});
