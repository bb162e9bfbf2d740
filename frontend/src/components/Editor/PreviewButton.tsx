/** Starts and stops the preview, in the editor's header. */

import { Button, Tooltip } from '@mantine/core';
import { IconPlayerPlayFilled, IconPlayerStopFilled } from '@tabler/icons-react';

import { usePreview } from '../../hooks/usePreview';
import { t } from '../../texts/t';

interface Props {
  readonly isDisabled: boolean;
  readonly onStart: () => void;
  readonly onStop: () => void;
}

export function PreviewButton({ isDisabled, onStart, onStop }: Props) {
  const isRunning = usePreview(({ shown }) => shown?.state === 'running');
  const isStarting = usePreview((state) => state.isStarting);
  const isStopping = usePreview((state) => state.isStopping);
  if (isRunning) {
    return (
      <Button
        size="sm"
        variant="default"
        leftSection={<IconPlayerStopFilled size={15} aria-hidden />}
        loading={isStopping}
        onClick={onStop}
      >
        {t('Stop preview')}
      </Button>
    );
  }
  return (
    <Tooltip label={t('Runs this draft over the first rows of its sources: nothing is written (P)')}>
      <Button
        size="sm"
        variant="default"
        leftSection={<IconPlayerPlayFilled size={15} aria-hidden />}
        loading={isStarting}
        disabled={isDisabled}
        onClick={onStart}
      >
        {t('Preview')}
      </Button>
    </Tooltip>
  );
}
