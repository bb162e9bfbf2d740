// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { MemoryRouter, useLocation } from 'react-router';
import { afterEach, beforeEach, expect, test } from 'vitest';

import type { FailureGroup } from '../../gen/contract';
import { jobException } from '../../model/testData';
import { ExceptionGroups } from './ExceptionGroups';

/** The panel opens with a transition. */
const PATIENT = { timeout: 10_000 };
const TRACE = 'Traceback (most recent call last):\n  File "job.py", line 41\nKeyError: 1';
const GROUP: FailureGroup = {
  name: 'KeyError',
  message: 'no such key',
  vertex: 'w',
  vertex_name: 'Window',
  place: '/programs/job.py:41',
  count: 25,
  first: 1_000,
  last: 9_000,
  occurrences: [
    {
      timestamp: 9_000,
      attempt: 25,
      task_name: 'Window (1/2)',
      location: 'host:1',
      message: 'no such key',
      others: 2,
      beside: [{ kind: 'checkpoint', timestamp: 8_000, text: 'checkpoint 12 failed' }],
    },
    { timestamp: 8_000, attempt: 24, task_name: 'Window (2/2)', location: '', message: '', others: 0, beside: [] },
  ],
};

afterEach(cleanup);

function Address() {
  return <output>{useLocation().search}</output>;
}

const address = () => screen.getByRole('status').textContent;

beforeEach(() => {
  render(
    <MantineProvider>
      <MemoryRouter>
        <ExceptionGroups
          groups={[GROUP]}
          exceptions={[jobException({ attempt: 25, stacktrace: TRACE })]}
          origin={() => null}
        />
        <Address />
      </MemoryRouter>
    </MantineProvider>,
  );
});

const control = () => screen.getByRole('button', { name: /KeyError/ });

test('a group tells how often it failed, and where', () => {
  expect(control().textContent).toMatch(/^25× timesKeyErrorjob.py:41, Windowno such key/);
});

test('an open group leads to the node, and lists what ran beside each', async () => {
  fireEvent.click(control());
  const link = await screen.findByText('Show Window in the graph', {}, PATIENT);
  expect(link.getAttribute('href')).toBe('/?vertex=w');
  expect(screen.getByText('attempts 24–25')).toBeTruthy();
  expect(screen.getByText('the newest 2 of 25')).toBeTruthy();
  const beside = screen.getByLabelText('What else went on in this attempt');
  expect(beside.textContent).toContain('checkpoint 12 failed');
  expect(beside.textContent).toContain('2 other exceptions');
});

test('the stack trace is that of the attempt, where it is kept', async () => {
  fireEvent.click(control());
  expect(await screen.findAllByLabelText('Stack trace', {}, PATIENT)).toHaveLength(1);
  expect(screen.getByLabelText('Stack trace').textContent).toContain('line 41');
});

test('an open group is in the address, so that a link opens it', () => {
  fireEvent.click(control());
  expect(new URLSearchParams(address()).get('cause')).toBe('KeyError w /programs/job.py:41');
  fireEvent.click(control());
  expect(address()).toBe('');
});
