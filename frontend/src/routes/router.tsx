/** All routes. Pages are loaded when they are opened, the overview and the login at once. */

import { createBrowserRouter } from 'react-router';

import { beginOpening } from '../api/opening';
import { PAGE_ROOT } from '../api/root';
import { Shell } from '../components/Shell/Shell';
import { LoginPage } from './LoginPage';
import { NotFoundPage, RouteFailure } from './NotFoundPage';
import { OverviewPage } from './OverviewPage';

export const router = createBrowserRouter(
  [
    { path: '/login', element: <LoginPage />, errorElement: <RouteFailure /> },
    {
      element: <Shell />,
      errorElement: <RouteFailure />,
      hydrateFallbackElement: <></>,
      children: [
        {
          errorElement: <RouteFailure />,
          children: [
            { path: '/', element: <OverviewPage /> },
            { path: '/submit', lazy: async () => ({ Component: (await import('./SubmitPage')).SubmitPage }) },
            { path: '/jobs/:jobId', lazy: async () => ({ Component: (await import('./JobPage')).JobPage }) },
            {
              path: '/pipelines',
              lazy: async () => ({ Component: (await import('./PipelinesPage')).PipelinesPage }),
            },
            {
              path: '/pipelines/:pipelineId/edit',
              loader: ({ params, request }) => {
                if (!new URL(request.url).searchParams.has('version')) beginOpening(params.pipelineId ?? '');
                return null;
              },
              shouldRevalidate: ({ currentUrl, nextUrl }) => currentUrl.pathname !== nextUrl.pathname,
              lazy: async () => ({ Component: (await import('./EditorPage')).EditorPage }),
            },
            {
              path: '/connections',
              lazy: async () => ({ Component: (await import('./ConnectionsPage')).ConnectionsPage }),
            },
            {
              path: '/savepoints',
              lazy: async () => ({ Component: (await import('./SavepointsPage')).SavepointsPage }),
            },
            { path: '/access', lazy: async () => ({ Component: (await import('./AccessPage')).AccessPage }) },
            { path: '/audit', lazy: async () => ({ Component: (await import('./AuditPage')).AuditPage }) },
            {
              path: '/jobmanagers',
              lazy: async () => ({ Component: (await import('./JobManagersPage')).JobManagersPage }),
            },
            {
              path: '/taskmanagers',
              lazy: async () => ({ Component: (await import('./TaskManagersPage')).TaskManagersPage }),
            },
            {
              path: '/taskmanagers/:taskmanagerId',
              lazy: async () => ({ Component: (await import('./TaskManagerPage')).TaskManagerPage }),
            },
            { path: '*', element: <NotFoundPage /> },
          ],
        },
      ],
    },
  ],
  // with a trailing slash, which links to the first page keep
  { basename: PAGE_ROOT },
);
