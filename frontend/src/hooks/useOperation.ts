/** An asynchronous operation on a job. The dialog closes once it is requested; a
 * notification reports its result, wherever the user is by then. */

import { notifications } from '@mantine/notifications';
import { useMutation } from '@tanstack/react-query';
import { useCallback, useEffect, useState } from 'react';

import { newTriggerId, settled } from '../api/checkpoints';
import { ApiError } from '../api/client';
import type { Triggered } from '../gen/contract';
import { OPERATION_TITLES, type OperationKind, type Titles, describeResult } from '../model/operations';
import { askedOperations, forgetOperation, keepOperation } from '../store/askedOperations';
import { useSingleFlight } from './useSingleFlight';

interface Options<T> {
  readonly jobId: string;
  readonly kind: OperationKind;
  readonly ask: (wanted: T, triggerId: string) => Promise<Triggered>;
  /** Called once it is requested. */
  readonly onAsked?: () => void;
  /** There is no dialog to show `error`: a notification reports that the request failed. */
  readonly isWithoutDialog?: boolean;
  /** Instead of those of its kind. */
  readonly titles?: Titles;
}

const FAILED = { color: 'red', autoClose: false, withCloseButton: true } as const;

export function useOperation<T>({ jobId, kind, ask, onAsked, isWithoutDialog = false, titles }: Options<T>) {
  // one per opening of the dialog: a request repeated after a lost response counts as one
  const [triggerId, setTriggerId] = useState(newTriggerId);
  const { mutate, isPending, error, reset } = useMutation({
    mutationFn: ({ wanted }: { readonly wanted: T }) => {
      keepOperation({ jobId, kind, triggerId });
      return ask(wanted, triggerId);
    },
    onSuccess: (triggered) => {
      onAsked?.();
      setTriggerId(newTriggerId());
      // from now on under the id that the server gave it
      forgetOperation(triggerId);
      keepOperation({ jobId, kind, triggerId: triggered['request-id'] });
      void follow(jobId, kind, triggered['request-id'], titles);
    },
    onError: (problem) => {
      // whose answer was lost may have been requested
      if (problem instanceof ApiError && problem.status >= 400 && problem.status < 500) forgetOperation(triggerId);
      if (isWithoutDialog) {
        // one notification, however often it is tried
        notifications.hide(triggerId);
        notifications.show({
          ...FAILED,
          id: triggerId,
          title: (titles ?? OPERATION_TITLES[kind])[2],
          message: problem.message,
        });
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

/** Reports the results of what this tab requested before it was reloaded. */
export function useEarlierOperations(): void {
  useEffect(() => {
    for (const { jobId, kind, triggerId } of askedOperations()) void follow(jobId, kind, triggerId);
  }, []);
}

async function follow(
  jobId: string,
  kind: OperationKind,
  id: string,
  [going, done, failed]: Titles = OPERATION_TITLES[kind],
): Promise<void> {
  notifications.show({ id, title: going, message: '', loading: true, autoClose: false });
  const shown = { id, loading: false, withCloseButton: true } as const;
  try {
    // a server that is away carries it out all the same
    const message = describeResult(kind, await settled(jobId, id, Infinity));
    notifications.update({ ...shown, title: done, message, autoClose: 10_000 });
  } catch (error) {
    // it was never requested, or its job is gone
    if (error instanceof ApiError && error.status === 404) notifications.hide(id);
    else {
      const message = error instanceof Error ? error.message : String(error);
      notifications.update({ ...FAILED, ...shown, title: failed, message });
    }
  }
  forgetOperation(id);
}
