/** Starts the page. */

import '@fontsource-variable/inter/wght.css';
import '@fontsource-variable/jetbrains-mono/wght.css';
import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import './styles/global.css';

import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { RouterProvider } from 'react-router';

import { ApiError } from './api/client';
import { fetchSession } from './api/session';
import { SESSION_KEY } from './hooks/useSession';
import { router } from './routes/router';
import { theme } from './theme';

/** A request refused without login makes the page check the session; without one it shows the login page. */
function checkSession(error: Error): void {
  if (error instanceof ApiError && error.isLoginNeeded) void client.invalidateQueries({ queryKey: SESSION_KEY });
}

const client: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: checkSession }),
  mutationCache: new MutationCache({ onError: checkSession }),
  defaultOptions: { queries: { retry: 1, refetchOnWindowFocus: false } },
});

// every page waits for it
client.query({ queryKey: SESSION_KEY, queryFn: fetchSession }).catch(() => undefined);

const root = document.getElementById('root');
if (root === null) throw new Error('index.html has no #root');
createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} defaultColorScheme="auto">
      <QueryClientProvider client={client}>
        <Notifications position="bottom-right" />
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
