/** All routes. Pages with a graph are loaded lazily. */

import { createBrowserRouter } from 'react-router';

import { Shell } from '../components/Shell/Shell';
import { JobManagersPage } from './JobManagersPage';
import { LoginPage } from './LoginPage';
import { NotFoundPage, RouteFailure } from './NotFoundPage';
import { OverviewPage } from './OverviewPage';
import { SavepointsPage } from './SavepointsPage';
import { TaskManagerPage } from './TaskManagerPage';
import { TaskManagersPage } from './TaskManagersPage';

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
            { path: '/savepoints', element: <SavepointsPage /> },
            { path: '/jobmanagers', element: <JobManagersPage /> },
            { path: '/taskmanagers', element: <TaskManagersPage /> },
            { path: '/taskmanagers/:taskmanagerId', element: <TaskManagerPage /> },
            { path: '*', element: <NotFoundPage /> },
          ],
        },
      ],
    },
  ],
  // with a trailing slash, which links to the first page keep
  { basename: import.meta.env.BASE_URL },
);
