/** The dialog in which something is asked of a job: fields, what the server refuses, and two buttons. */

import { Button, Group, Modal } from '@mantine/core';
import type { ReactNode, SyntheticEvent } from 'react';

import classes from './JobActions.module.css';

interface Props {
  readonly title: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  /** It is gone from the page: the focus goes where it says, else to where it was before. */
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
      closeButtonProps={{ 'aria-label': 'Close' }}
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
            Close
          </Button>
          <Button type="submit" loading={isBusy} disabled={isDisabled}>
            {action}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
