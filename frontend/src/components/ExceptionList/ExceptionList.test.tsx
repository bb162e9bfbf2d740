// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { cleanup, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, test } from 'vitest';

import { jobException } from '../../model/testData';
import { ExceptionList } from './ExceptionList';

afterEach(cleanup);

function show(kept: number, total: number): void {
  const exceptions = Array.from({ length: kept }, (_, index) => jobException({ timestamp: index }));
  render(
    <MantineProvider>
      <MemoryRouter>
        <ExceptionList exceptions={exceptions} total={total} vertexLink={() => null} />
      </MemoryRouter>
    </MantineProvider>,
  );
}

test('a list that has not kept all exceptions says how many there were', () => {
  show(16, 21);
  expect(screen.getByText(/newest 16 of 21 exceptions/)).toBeTruthy();
});

test('a list with all of them says nothing of it', () => {
  show(3, 3);
  expect(screen.queryByText(/newest/)).toBeNull();
});
