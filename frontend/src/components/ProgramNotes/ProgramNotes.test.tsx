// @vitest-environment happy-dom
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, expect, test } from 'vitest';

import { ProgramNotes } from './ProgramNotes';

afterEach(cleanup);

test('warnings and what the program printed are shown', () => {
  render(<ProgramNotes said={{ warnings: ['map has no uid'], output: 'reads 3 files' }} />);
  expect(screen.getByText('map has no uid')).toBeTruthy();
  expect(screen.getByLabelText('Printed by the program').textContent).toBe('reads 3 files');
});

test('a program that says nothing takes no place', () => {
  const { container } = render(<ProgramNotes said={{ warnings: [], output: '' }} />);
  expect(container.innerHTML).toBe('');
});
