/** Pages for unknown routes and for errors. */

import { Button } from '@mantine/core';
import { IconMapQuestion } from '@tabler/icons-react';
import { Link, useRouteError } from 'react-router';

import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { usePageTitle } from '../hooks/usePageTitle';
import { t } from '../texts/t';

interface Props {
  readonly title?: string;
  readonly children?: string;
}

export function NotFoundPage({ title = t('Page not found'), children = t('The link may be outdated.') }: Props) {
  usePageTitle(t('Not found'));
  return (
    <EmptyState icon={IconMapQuestion} title={title} isPage>
      <p>{children}</p>
      <Button component={Link} to="/" variant="default">
        {t('Go to the overview')}
      </Button>
    </EmptyState>
  );
}

export function RouteFailure() {
  const error = useRouteError();
  const message = error instanceof Error ? error.message : String(error);
  return (
    <FailureState isPage title={t('This page has failed')} message={message} onRetry={() => window.location.reload()} />
  );
}
