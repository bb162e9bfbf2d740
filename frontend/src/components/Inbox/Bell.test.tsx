// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { Happening, Inbox } from '../../gen/contract';
import { Bell } from './Bell';

let inbox: Inbox;
let read: unknown[];

const happening = (at: number, overrides: Partial<Happening> = {}): Happening => ({
  kind: 'restart',
  at,
  subject: 'j',
  name: 'flights',
  text: `attempt ${at} failed`,
  is_bad: true,
  ...overrides,
});

beforeEach(() => {
  read = [];
  inbox = { happenings: [happening(30), happening(20), happening(10)], is_cut: false, read_at: 15, unread: 2 };
  vi.stubGlobal('fetch', (_: string, options: RequestInit = {}) => {
    if (options.method === 'PUT') {
      const body = JSON.parse(options.body as string) as { read_at: number };
      read.push(body.read_at);
      inbox = { ...inbox, read_at: body.read_at, unread: 0 };
    }
    return Promise.resolve(new Response(JSON.stringify(inbox)));
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function show() {
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <MemoryRouter>
          <Bell />
        </MemoryRouter>
      </QueryClientProvider>
    </MantineProvider>,
  );
}

test('the bell counts what is new; opened, it is read, and stays marked as new', async () => {
  show();
  fireEvent.click(await screen.findByRole('button', { name: 'What happened: 2 new' }));
  const links = await screen.findAllByRole('link');
  expect(links.map((link) => link.textContent.includes('New: '))).toEqual([true, true, false]);
  expect(links[0]?.getAttribute('href')).toBe('/jobs/j?tab=exceptions');
  await waitFor(() => expect(read).toEqual([30]));
  await screen.findByRole('button', { name: 'What happened: nothing new' });
  expect(screen.getAllByText('New:', { exact: false })).toHaveLength(2);
  fireEvent.click(screen.getByRole('button', { name: 'Close' }));
  await waitFor(() => expect(screen.queryByRole('link')).toBeNull());
});

test('a bell that is opened before the server has answered is read when it has', async () => {
  show();
  fireEvent.click(screen.getByRole('button', { name: 'What happened: nothing new' }));
  await waitFor(() => expect(read).toEqual([30]));
  expect(screen.getAllByText('New:', { exact: false })).toHaveLength(2);
});

test('a quiet cluster says so, and nothing is marked as read', async () => {
  inbox = { happenings: [], is_cut: false, read_at: 0, unread: 0 };
  show();
  fireEvent.click(await screen.findByRole('button', { name: 'What happened: nothing new' }));
  expect(await screen.findByText('Nothing in the last seven days.')).toBeTruthy();
  expect(read).toEqual([]);
});

test('the list says that there is more', async () => {
  inbox = { ...inbox, is_cut: true };
  show();
  fireEvent.click(await screen.findByRole('button', { name: 'What happened: 2 new' }));
  expect(await screen.findByText('What happened before is not shown.')).toBeTruthy();
});
