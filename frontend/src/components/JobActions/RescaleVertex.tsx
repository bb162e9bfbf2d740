/** Two buttons that open the dialog for rescaling with a vertex's parallelism changed by one. */

import { ActionIcon } from '@mantine/core';
import { IconMinus, IconPlus } from '@tabler/icons-react';
import { memo } from 'react';

import type { Vertex } from '../../model/job';
import { t } from '../../texts/t';
import classes from './JobActions.module.css';

interface Props {
  readonly vertex: Pick<Vertex, 'id' | 'name' | 'parallelism' | 'max_parallelism'>;
  readonly onWish: (id: string, parallelism: number) => void;
}

/** Rendered apart from the figures beside it. */
export const RescaleVertex = memo(function RescaleVertex({ vertex, onWish }: Props) {
  const { id, name, parallelism, max_parallelism: most } = vertex;
  return (
    <span className={classes.steps}>
      <ActionIcon
        size="xs"
        variant="default"
        aria-label={t('Fewer subtasks of {name}', { name })}
        disabled={parallelism <= 1}
        onClick={() => onWish(id, parallelism - 1)}
      >
        <IconMinus size={11} aria-hidden />
      </ActionIcon>
      {parallelism}
      <ActionIcon
        size="xs"
        variant="default"
        aria-label={t('More subtasks of {name}', { name })}
        disabled={parallelism >= most}
        onClick={() => onWish(id, parallelism + 1)}
      >
        <IconPlus size={11} aria-hidden />
      </ActionIcon>
    </span>
  );
});
