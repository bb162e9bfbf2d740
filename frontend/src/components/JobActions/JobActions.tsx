/** Actions on a job, running or ended. */

import { Button, Menu, Tooltip } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useRef, useState } from 'react';
import {
  IconArrowsDiagonal,
  IconBookmark,
  IconChevronDown,
  IconDeviceFloppy,
  IconPlayerStop,
  IconRotateClockwise,
} from '@tabler/icons-react';

import { triggerCheckpoint } from '../../api/checkpoints';
import { useOperation } from '../../hooks/useOperation';
import { useRole, useSubmissionRefusal } from '../../hooks/useSession';
import { mayOperate, maySubmit } from '../../model/access';
import type { Job } from '../../model/job';
import { isTerminal } from '../../model/states';
import { CancelJob } from '../CancelJob/CancelJob';
import classes from './JobActions.module.css';
import { RescaleJob } from './RescaleJob';
import { RunAgain } from './RunAgain';
import { StopJob } from './StopJob';
import { TakeSavepoint } from './TakeSavepoint';

const ICON = { size: 16, stroke: 1.8 } as const;

export function JobActions({ job }: { readonly job: Job }) {
  return <div className={classes.actions}>{isTerminal(job.state) ? <Ended job={job} /> : <Active job={job} />}</div>;
}

function Active({ job }: { readonly job: Job }) {
  const isAllowed = mayOperate(useRole());
  const [savepointIsOpen, savepoint] = useDisclosure(false);
  const [stopIsOpen, stop] = useDisclosure(false);
  const [rescaleIsOpen, rescale] = useDisclosure(false);
  const [rescaleNumber, setRescaleNumber] = useState(0);
  const openRescale = () => {
    setRescaleNumber((old) => old + 1);
    rescale.open();
  };
  const checkpoint = useCheckpointNow(job.id);
  const menu = useRef<HTMLButtonElement>(null);
  // the menu item that opened a dialog no longer exists when the dialog closes
  const focusMenu = () => menu.current?.focus();
  const isReady = isAllowed && job.state === 'RUNNING';
  return (
    <>
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <Button
            ref={menu}
            variant="default"
            rightSection={<IconChevronDown size={15} stroke={1.8} />}
            disabled={!isReady}
          >
            Actions
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<IconBookmark {...ICON} />} onClick={savepoint.open}>
            Take a savepoint
          </Menu.Item>
          <Menu.Item leftSection={<IconDeviceFloppy {...ICON} />} onClick={() => checkpoint(undefined)}>
            Take a checkpoint now
          </Menu.Item>
          <Menu.Item leftSection={<IconArrowsDiagonal {...ICON} />} onClick={openRescale}>
            Rescale
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Tooltip label="Requires the role operator" disabled={isAllowed}>
        <Button variant="default" leftSection={<IconPlayerStop {...ICON} />} disabled={!isReady} onClick={stop.open}>
          Stop
        </Button>
      </Tooltip>
      <CancelJob job={job} />
      <TakeSavepoint job={job} isOpen={savepointIsOpen} onClose={savepoint.close} onClosed={focusMenu} />
      <StopJob job={job} isOpen={stopIsOpen} onClose={stop.close} />
      {/* a new one for each opening: its fields begin with the parallelism of that moment */}
      <RescaleJob key={rescaleNumber} job={job} isOpen={rescaleIsOpen} onClose={rescale.close} onClosed={focusMenu} />
    </>
  );
}

function Ended({ job }: { readonly job: Job }) {
  const refusal = useSubmissionRefusal();
  const isAllowed = maySubmit(useRole()) && refusal === '';
  const [isOpen, { open, close }] = useDisclosure(false);
  return (
    <>
      <Tooltip label={refusal !== '' ? refusal : 'Requires the role developer'} disabled={isAllowed}>
        <Button variant="default" leftSection={<IconRotateClockwise {...ICON} />} disabled={!isAllowed} onClick={open}>
          Run again
        </Button>
      </Tooltip>
      <RunAgain job={job} isOpen={isOpen} onClose={close} />
    </>
  );
}

function useCheckpointNow(jobId: string) {
  const { start } = useOperation<undefined>({
    jobId,
    ask: (_, triggerId) => triggerCheckpoint(jobId, triggerId),
    isWithoutDialog: true,
    titles: ['Taking a checkpoint', 'Checkpoint completed', 'No checkpoint was taken'],
    describe: ({ checkpoint_id: id }) => `Number ${id ?? '?'}`,
  });
  return start;
}
