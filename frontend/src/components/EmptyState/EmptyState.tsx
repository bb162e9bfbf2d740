/** Placeholder for missing content or a failure: an icon, a sentence, and what to do. */

import { Button } from '@mantine/core';
import { type Icon, IconAlertTriangle } from '@tabler/icons-react';
import type { ReactNode } from 'react';

import { t } from '../../texts/t';
import classes from './EmptyState.module.css';

interface Props {
  readonly icon: Icon;
  readonly title: string;
  readonly children?: ReactNode;
  readonly compact?: boolean;
  /** If it is the page's only content, its title is the page's heading. */
  readonly isPage?: boolean;
}

export function EmptyState({ icon: StateIcon, title, children, compact = false, isPage = false }: Props) {
  const Title = isPage ? 'h1' : 'p';
  return (
    <div className={classes.empty} data-compact={compact || undefined}>
      <StateIcon size={compact ? 26 : 36} stroke={1.4} className={classes.icon} aria-hidden />
      <Title className={classes.title}>{title}</Title>
      {children !== undefined && <div className={classes.body}>{children}</div>}
    </div>
  );
}

interface FailureProps {
  readonly title: string;
  readonly message: string;
  readonly onRetry?: () => void;
  readonly isPage?: boolean;
}

export function FailureState({ title, message, onRetry, isPage = false }: FailureProps) {
  return (
    <div role="alert">
      <EmptyState icon={IconAlertTriangle} title={title} isPage={isPage}>
        <p className={classes.message}>{message}</p>
        {onRetry !== undefined && (
          <Button variant="default" onClick={onRetry}>
            {t('Try again')}
          </Button>
        )}
      </EmptyState>
    </div>
  );
}
