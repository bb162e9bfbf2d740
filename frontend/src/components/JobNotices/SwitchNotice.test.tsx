// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, test, vi } from 'vitest';

import type { JobState, Switch } from '../../gen/contract';
import { job } from '../../model/testData';
import { SwitchNotice } from './SwitchNotice';

const OLD = job({}).id;
const NEW = 'b'.repeat(32);

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

/** Shows the notice of a job; returns what was asked for. */
function show(state: JobState, found: Partial<Switch> | null): string[] {
  const asked: string[] = [];
  vi.stubGlobal('fetch', (url: string) => {
    asked.push(url);
    return Promise.resolve(new Response(JSON.stringify({ switch: found })));
  });
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MemoryRouter>
        <SwitchNotice job={job({ state })} />
      </MemoryRouter>
    </QueryClientProvider>,
  );
  return asked;
}

test('a job that was switched says as which it goes on', async () => {
  show('FINISHED', { state: 'RUNNING', execution: 'micro-batch', message: '', old_job_id: OLD, goes_on_as: NEW });
  const link = await screen.findByRole('link', { name: 'Goes on as bbbbbbbb' });
  expect(link.getAttribute('href')).toBe(`/jobs/${NEW}`);
  expect(link.parentElement?.textContent).toContain('executed in micro-batches now');
});

test('a new job that has failed says why, and what goes on', async () => {
  const failed = { state: 'ROLLED_BACK', execution: 'micro-batch', message: 'no slots', job_id: OLD } as const;
  show('FAILED', { ...failed, goes_on_as: NEW });
  const link = await screen.findByRole('link');
  expect(link.parentElement?.textContent).toContain('no slots: the job goes on as before.');
});

test('a job that runs does not ask', () => {
  expect(show('RUNNING', null)).toEqual([]);
});
