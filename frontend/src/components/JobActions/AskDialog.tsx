/** Dialog for an operation on a job: fields, the server's error, and two buttons. */

import { Button, Group, Modal } from '@mantine/core';
import type { ReactNode, SyntheticEvent } from 'react';

import { t } from '../../texts/t';
import classes from './JobActions.module.css';

interface Props {
  readonly title: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  /** Called when it has closed: moves the focus, which otherwise returns to where it was. */
  readonly onClosed?: () => void;
  readonly onSubmit: () => void;
  readonly action: string;
  readonly isBusy?: boolean;
  readonly isDisabled?: boolean;
  readonly problem?: string | null;
  readonly children: ReactNode;
}

export function AskDialog(props: Props) {
  const {
    title,
    isOpen,
    onClose,
    onClosed,
    onSubmit,
    action,
    isBusy = false,
    isDisabled = false,
    problem,
    children,
  } = props;
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    onSubmit();
  };
  return (
    <Modal
      opened={isOpen}
      onClose={onClose}
      title={title}
      centered
      closeButtonProps={{ 'aria-label': t('Close') }}
      {...(onClosed === undefined ? {} : { returnFocus: false, onExitTransitionEnd: onClosed })}
    >
      <form onSubmit={submit}>
        {children}
        {problem !== undefined && problem !== null && (
          <p role="alert" className={classes.problem}>
            {problem}
          </p>
        )}
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            {t('Close')}
          </Button>
          <Button type="submit" loading={isBusy} disabled={isDisabled}>
            {action}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
