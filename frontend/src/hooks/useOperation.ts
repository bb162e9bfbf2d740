/** An asynchronous operation on a job. The dialog closes once it is requested; a
 * notification reports its result, wherever the user is by then. */

import { notifications } from '@mantine/notifications';
import { useMutation } from '@tanstack/react-query';
import { useCallback, useState } from 'react';

import { newTriggerId, settled } from '../api/checkpoints';
import type { OperationResult as Result, Triggered } from '../gen/contract';
import { useSingleFlight } from './useSingleFlight';

interface Options<T> {
  readonly jobId: string;
  readonly ask: (wanted: T, triggerId: string) => Promise<Triggered>;
  /** Called once it is requested. */
  readonly onAsked?: () => void;
  /** There is no dialog to show `error`: a notification reports that the request failed. */
  readonly isWithoutDialog?: boolean;
  /** Titles while in progress, on success and on failure. */
  readonly titles: readonly [string, string, string];
  readonly describe?: (result: Result) => string;
}

const FAILED = { color: 'red', autoClose: false, withCloseButton: true } as const;

export function useOperation<T>({ jobId, ask, onAsked, isWithoutDialog = false, titles, describe }: Options<T>) {
  // one per opening of the dialog: a request repeated after a lost response counts as one
  const [triggerId, setTriggerId] = useState(newTriggerId);
  const { mutate, isPending, error, reset } = useMutation({
    mutationFn: ({ wanted }: { readonly wanted: T }) => ask(wanted, triggerId),
    onSuccess: (triggered) => {
      onAsked?.();
      setTriggerId(newTriggerId());
      void follow(jobId, triggered, titles, describe);
    },
    onError: (problem) => {
      if (isWithoutDialog) {
        // one notification, however often it is tried
        notifications.hide(triggerId);
        notifications.show({ ...FAILED, id: triggerId, title: titles[2], message: problem.message });
      }
    },
  });
  const renew = useCallback(() => {
    setTriggerId(newTriggerId());
    reset();
  }, [reset]);
  const send = useSingleFlight(mutate);
  const start = useCallback((wanted: T) => send({ wanted }), [send]);
  return { start, isAsking: isPending, error, renew };
}

async function follow(
  jobId: string,
  triggered: Triggered,
  [going, done, failed]: Options<unknown>['titles'],
  describe: (result: Result) => string = () => '',
): Promise<void> {
  const id = triggered['request-id'];
  notifications.show({ id, title: going, message: '', loading: true, autoClose: false });
  const shown = { id, loading: false, withCloseButton: true } as const;
  try {
    const message = describe(await settled(jobId, triggered));
    notifications.update({ ...shown, title: done, message, autoClose: 10_000 });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    notifications.update({ ...FAILED, ...shown, title: failed, message });
  }
}
