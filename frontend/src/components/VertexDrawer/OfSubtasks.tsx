/** What a tab shows of a vertex's subtasks, which are a live topic of their own: subscribed to while it is shown. */

import { Skeleton } from '@mantine/core';
import type { ReactNode } from 'react';

import type { LiveVertex } from '../../gen/contract';
import { useSubtasks } from '../../hooks/useJob';
import { t } from '../../texts/t';
import { FailureState } from '../EmptyState/EmptyState';

interface Props {
  readonly vertexId: string;
  readonly children: (live: LiveVertex) => ReactNode;
}

export function OfSubtasks({ vertexId, children }: Props) {
  const { data, error } = useSubtasks(vertexId);
  if (data !== undefined) return children(data);
  if (error !== null) return <FailureState title={t('The subtasks cannot be shown')} message={error} />;
  return <Skeleton height={160} radius={10} />;
}
