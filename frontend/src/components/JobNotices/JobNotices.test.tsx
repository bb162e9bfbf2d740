// @vitest-environment happy-dom
import { cleanup, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, test } from 'vitest';

import { job, jobException } from '../../model/testData';
import { JobNotices } from './JobNotices';

afterEach(cleanup);

test('a failed job opens with its newest cause, in one line that leads to all exceptions', () => {
  const failed = job({ state: 'FAILED', restarts: 3, exceptions: [jobException({ message: 'broke\nat x' })] });
  render(<JobNotices job={failed} now={0} />, { wrapper: MemoryRouter });
  expect(screen.getByRole('status').textContent).toContain(
    'Failed: ValueError: broke in map (1/1). It has restarted 3 times.',
  );
  expect(screen.getByRole('link', { name: 'Show exceptions' }).getAttribute('href')).toBe('/?tab=exceptions');
});

test('a restarting job says when its next attempt begins', () => {
  const failure = { timestamp: 0, name: 'my_job.errors.KeyError', message: "'XBT'", task_name: '', attempt: 2 };
  const delay = { waiting_for: 'the delay of its restart strategy', next_attempt_at: 9_200 };
  const restarting = job({ state: 'RESTARTING', restarts: 1, failure, failures: 2, ...delay });
  render(<JobNotices job={restarting} now={1_000} />, { wrapper: MemoryRouter });
  const text = screen.getByRole('status').textContent.replaceAll('\u202f', ' ');
  expect(text).toBe("Restarting: The next attempt is in 9 s. KeyError: 'XBT'. It has restarted once.Show exceptions");
});

test('the task and the exception are named once, even where the message names them, too', () => {
  const failure = { ...jobException({ message: 'task map (1/1): ValueError: broke' }) };
  render(<JobNotices job={job({ state: 'FAILED', failure })} now={0} />, { wrapper: MemoryRouter });
  expect(screen.getByRole('status').textContent).toContain('Failed: ValueError: broke in map (1/1). It was not');
});

test('an error of user code opens with the operator, and names nothing twice', () => {
  const message = "operator 'parse' (subtask 1/2) failed on record 7: KeyError: 'dep' at job.py:3: r['dep']";
  const failure = jobException({ name: 'runtime.operators.errors.UserFunctionError', message });
  render(<JobNotices job={job({ state: 'FAILED', failure })} now={0} />, { wrapper: MemoryRouter });
  expect(screen.getByRole('status').textContent).toContain(`Failed: ${message}. It was not restarted.`);
});

test('a job that has recovered has nothing to say about its old exceptions', () => {
  const recovered = job({ state: 'RUNNING', restarts: 1, exceptions: [jobException()] });
  const { container } = render(<JobNotices job={recovered} now={0} />, { wrapper: MemoryRouter });
  expect(container.textContent).toBe('');
});

test('what a job waits for is a notice', () => {
  render(<JobNotices job={job({ state: 'CREATED', waiting_for: 'needs 4 slots, 2 are free' })} now={0} />, {
    wrapper: MemoryRouter,
  });
  expect(screen.getByRole('status').textContent).toBe('Waiting: needs 4 slots, 2 are free');
});

test('an operation that takes its time is a notice, a short one is not', () => {
  const operation = { trigger_id: 'a', kind: 'stop', is_begun: true, since: 1_000, requested_by: 'anna' } as const;
  const told = job({ state: 'RUNNING', operations: [operation] });
  const { rerender, container } = render(<JobNotices job={told} now={2_500} />, { wrapper: MemoryRouter });
  expect(container.textContent).toBe('');
  rerender(<JobNotices job={told} now={8_000} />);
  const text = screen.getByRole('status').textContent.replaceAll('\u202f', ' ');
  expect(text).toBe('Stopping the job: for 7 s, requested by anna');
  rerender(
    <JobNotices job={{ ...told, operations: [{ ...operation, is_begun: false, requested_by: '' }] }} now={8_000} />,
  );
  expect(screen.getByRole('status').textContent).toMatch(/^Stopping the job: waits to begin, for 7\s/);
});

test('a call of the runtime that does not return is not called user code', () => {
  const stall = { vertex: 'v', subtask: 0, task_name: 'map (1/2)', slot: 0, since: 1_000, stack: 'File "x"' };
  render(<JobNotices job={job({ stalls: [{ ...stall, in_user_code: false }] })} now={10_500} />, {
    wrapper: MemoryRouter,
  });
  expect(screen.getByRole('status').textContent).toMatch(/^The runtime does not return: map \(1\/2\)/);
});

test('a call that does not return is a notice with its place', () => {
  const stack = '  File "job.py", line 3, in ask\n    get(url)';
  const stall = { vertex: 'v', subtask: 0, task_name: 'map (1/2)', slot: 0, since: 1_000, stack };
  const waiting_for = 'user code that has not returned, in map (1/2)';
  render(<JobNotices job={job({ stalls: [stall], waiting_for })} now={10_500} />, { wrapper: MemoryRouter });
  expect(screen.getByRole('status').textContent).toMatch(
    /^User code does not return: map \(1\/2\), for 9\ss: File "job.py", line 3, in ask get\(url\)/,
  );
});
