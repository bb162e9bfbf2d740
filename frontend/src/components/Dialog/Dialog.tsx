/** A dialog that is there while it is open. It gives the focus back to what had it, which Mantine's does if it stays mounted. */

import { Modal, type ModalProps } from '@mantine/core';
import { useEffect, useState } from 'react';

import { t } from '../../texts/t';

export function Dialog(props: Omit<ModalProps, 'opened'>) {
  const [before] = useState(() => document.activeElement);
  useEffect(
    () => () => {
      // unless it has moved on
      if (document.activeElement !== null && document.activeElement !== document.body) return;
      if (before instanceof HTMLElement) before.focus({ preventScroll: true });
    },
    [before],
  );
  return <Modal opened closeButtonProps={{ 'aria-label': t('Close') }} {...props} />;
}
