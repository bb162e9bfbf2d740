// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { cleanup, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, test } from 'vitest';

import { OptionTable } from './OptionTable';

afterEach(cleanup);

const OPTIONS = [
  ['taskmanager.numberOfTaskSlots', '8'],
  ['spark.master', 'local[8]'],
] as const;

function keys(address: string): (string | null)[] {
  render(
    <MantineProvider env="test">
      <MemoryRouter initialEntries={[address]}>
        <OptionTable title="Configuration" caption="Options" options={OPTIONS} none="There are none" />
      </MemoryRouter>
    </MantineProvider>,
  );
  const rows = screen.queryAllByRole('row').slice(1);
  return rows.map((row) => row.querySelector('td')?.textContent ?? null);
}

test('options are sorted by their keys', () => {
  expect(keys('/')).toEqual(['spark.master', 'taskmanager.numberOfTaskSlots']);
});

test('a link shows the options that match its filter, in keys and values', () => {
  expect(keys('/?option=LOCAL')).toEqual(['spark.master']);
  expect(screen.getByRole<HTMLInputElement>('textbox', { name: 'Filter options' }).value).toBe('LOCAL');
});

test('a filter that nothing matches says so', () => {
  expect(keys('/?option=nonsense')).toEqual([]);
  expect(screen.getByText('No option matches the filter')).toBeTruthy();
});
