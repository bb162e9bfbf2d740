/** Actions on a job, running or ended. */

import { Button, Menu, Tooltip } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { type RefObject, Suspense, lazy, useEffect, useRef, useState } from 'react';
import {
  IconArrowsDiagonal,
  IconArrowsExchange,
  IconBan,
  IconBookmark,
  IconChevronDown,
  IconCopyPlus,
  IconDeviceFloppy,
  IconHistory,
  IconPlayerStop,
  IconRotateClockwise,
} from '@tabler/icons-react';

import { triggerCheckpoint } from '../../api/checkpoints';
import { useJobPipeline } from '../../hooks/useJobPipeline';
import { useJobPart } from '../../hooks/useJob';
import { useOperation } from '../../hooks/useOperation';
import { useRole, useSubmissionRefusal } from '../../hooks/useSession';
import { mayOperate, maySubmit } from '../../model/access';
import type { Job } from '../../model/job';
import { isCancellable, isTerminal } from '../../model/states';
import { t } from '../../texts/t';
import { CancelJob } from './CancelJob';
import classes from './JobActions.module.css';
import { StopJob } from './StopJob';
import { TakeSavepoint } from './TakeSavepoint';
import { useClone } from './useClone';

const RescaleJob = lazy(async () => ({ default: (await import('./RescaleJob')).RescaleJob }));
const SwitchExecution = lazy(async () => ({ default: (await import('./SwitchExecution')).SwitchExecution }));
const RestoreJob = lazy(async () => ({ default: (await import('./RestoreJob')).RestoreJob }));

const ICON = { size: 16, stroke: 1.8 } as const;

export function JobActions({ job }: { readonly job: Job }) {
  const switching = useSwitching(job.id);
  const menu = useRef<HTMLButtonElement>(null);
  return (
    <div className={classes.actions}>
      {isTerminal(job.state) ? (
        <Ended job={job} />
      ) : (
        <Active job={job} menu={menu} onSwitch={switching?.open ?? null} />
      )}
      {/* here, as it stays open when the job has ended */}
      {switching !== null && switching.number > 0 && (
        <Suspense fallback={null}>
          <SwitchExecution
            key={switching.number}
            job={job}
            isOpen={switching.isOpen}
            onClose={switching.close}
            onClosed={() => menu.current?.focus()}
          />
        </Suspense>
      )}
    </div>
  );
}

interface ActiveProps {
  readonly job: Job;
  readonly menu: RefObject<HTMLButtonElement | null>;
  /** Opens the dialog; null: the job cannot be switched. */
  readonly onSwitch: (() => void) | null;
}

function Active({ job, menu, onSwitch }: ActiveProps) {
  const isAllowed = mayOperate(useRole());
  const [savepointIsOpen, savepoint] = useDisclosure(false);
  const [stopIsOpen, stop] = useDisclosure(false);
  const [cancelIsOpen, cancel] = useDisclosure(false);
  const [rescaleIsOpen, rescale] = useDisclosure(false);
  const [rescaleNumber, setRescaleNumber] = useState(0);
  const openRescale = () => {
    setRescaleNumber((old) => old + 1);
    rescale.open();
  };
  const checkpoint = useCheckpointNow(job.id);
  const clone = useClone(job.id);
  const restoring = useRestoring(job.id);
  // the menu item that opened a dialog no longer exists when the dialog closes
  const focusMenu = () => menu.current?.focus();
  const operations = useJobPart(({ moving }) => moving.operations);
  const isStopping = Object.values(operations).some(({ kind }) => kind === 'stop');
  const isRunning = job.state === 'RUNNING' && !isStopping;
  const { close: closeStop } = stop;
  const { close: closeSavepoint } = savepoint;
  // for good: they must not come back by themselves if the stop fails
  useEffect(() => {
    if (!isStopping) return;
    closeStop();
    closeSavepoint();
  }, [isStopping, closeStop, closeSavepoint]);
  return (
    <>
      <Tooltip label={t('Requires the role operator')} disabled={isAllowed}>
        <Button leftSection={<IconPlayerStop {...ICON} />} disabled={!isAllowed || !isRunning} onClick={stop.open}>
          {isStopping ? t('Stopping') : t('Stop with savepoint')}
        </Button>
      </Tooltip>
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <Button
            ref={menu}
            variant="default"
            rightSection={<IconChevronDown size={15} stroke={1.8} />}
            disabled={!isAllowed}
          >
            {t('Actions')}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<IconBookmark {...ICON} />} disabled={!isRunning} onClick={savepoint.open}>
            {t('Take a savepoint')}
          </Menu.Item>
          <Menu.Item
            leftSection={<IconDeviceFloppy {...ICON} />}
            disabled={!isRunning}
            onClick={() => checkpoint(undefined)}
          >
            {t('Take a checkpoint now')}
          </Menu.Item>
          <Menu.Item leftSection={<IconArrowsDiagonal {...ICON} />} disabled={!isRunning} onClick={openRescale}>
            {t('Rescale')}
          </Menu.Item>
          <Menu.Item
            leftSection={<IconHistory {...ICON} />}
            disabled={!restoring.isAllowed || job.state === 'CANCELLING' || isStopping}
            onClick={restoring.open}
          >
            {t('Restore from a snapshot')}
          </Menu.Item>
          {onSwitch !== null && (
            <Menu.Item
              leftSection={<IconArrowsExchange {...ICON} />}
              disabled={!restoring.isAllowed || !isRunning}
              onClick={onSwitch}
            >
              {t('Switch execution')}
            </Menu.Item>
          )}
          {clone !== null && (
            <Menu.Item
              leftSection={<IconCopyPlus {...ICON} />}
              disabled={!clone.isAllowed || clone.isPending}
              onClick={clone.clone}
            >
              {t('Clone to the editor')}
            </Menu.Item>
          )}
          <Menu.Divider />
          <Menu.Item
            className={classes.danger}
            leftSection={<IconBan {...ICON} />}
            disabled={!isCancellable(job.state)}
            onClick={cancel.open}
          >
            {job.state === 'CANCELLING' ? t('Cancelling') : t('Cancel job')}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <TakeSavepoint job={job} isOpen={savepointIsOpen} onClose={savepoint.close} onClosed={focusMenu} />
      <StopJob job={job} isOpen={stopIsOpen} onClose={stop.close} />
      <CancelJob job={job} isStopping={isStopping} isOpen={cancelIsOpen} onClose={cancel.close} onClosed={focusMenu} />
      {restoring.wasOpened && (
        <Suspense fallback={null}>
          <RestoreJob job={job} isOpen={restoring.isOpen} onClose={restoring.close} onClosed={focusMenu} />
        </Suspense>
      )}
      {/* a new one for each opening: its fields begin with the parallelism of that moment */}
      {rescaleNumber > 0 && (
        <Suspense>
          <RescaleJob
            key={rescaleNumber}
            job={job}
            isOpen={rescaleIsOpen}
            onClose={rescale.close}
            onClosed={focusMenu}
          />
        </Suspense>
      )}
    </>
  );
}

function Ended({ job }: { readonly job: Job }) {
  const { isAllowed, why, isOpen, wasOpened, open, close } = useRestoring(job.id);
  const clone = useClone(job.id);
  return (
    <>
      {clone !== null && (
        <Tooltip label={t('Requires the role developer')} disabled={clone.isAllowed}>
          <Button
            variant="default"
            leftSection={<IconCopyPlus {...ICON} />}
            disabled={!clone.isAllowed}
            loading={clone.isPending}
            onClick={clone.clone}
          >
            {t('Clone to the editor')}
          </Button>
        </Tooltip>
      )}
      <Tooltip label={why} disabled={isAllowed}>
        <Button variant="default" leftSection={<IconRotateClockwise {...ICON} />} disabled={!isAllowed} onClick={open}>
          {t('Run again')}
        </Button>
      </Tooltip>
      {wasOpened && (
        <Suspense fallback={null}>
          <RestoreJob job={job} isOpen={isOpen} onClose={close} />
        </Suspense>
      )}
    </>
  );
}

/** Who may start a job again, why not, and the dialog's state: a drawn one is a deployment. */
function useRestoring(jobId: string) {
  const refusal = useSubmissionRefusal();
  const role = useRole();
  const isDrawn = useJobPipeline(jobId) !== null;
  const isInRole = isDrawn ? mayOperate(role) : maySubmit(role);
  const why = refusal !== '' ? refusal : isDrawn ? t('Requires the role operator') : t('Requires the role developer');
  const [wasOpened, setWasOpened] = useState(false);
  const [isOpen, { open, close }] = useDisclosure(false, { onOpen: () => setWasOpened(true) });
  return { isAllowed: isInRole && refusal === '', why, isOpen, wasOpened, open, close };
}

/** The dialog's state, and how often it was opened; null: a drawn job is switched by its pipeline's setting. */
function useSwitching(jobId: string) {
  const isDrawn = useJobPipeline(jobId) !== null;
  const [number, setNumber] = useState(0);
  const [isOpen, { open, close }] = useDisclosure(false, { onOpen: () => setNumber((old) => old + 1) });
  return isDrawn ? null : { isOpen, number, open, close };
}

function useCheckpointNow(jobId: string) {
  const { start } = useOperation<undefined>({
    jobId,
    kind: 'checkpoint',
    ask: (_, triggerId) => triggerCheckpoint(jobId, triggerId),
    isWithoutDialog: true,
  });
  return start;
}
