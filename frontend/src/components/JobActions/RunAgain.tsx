/** Runs the program of an ended job again, from one of its savepoints or checkpoints, or without state. */

import { Radio, Skeleton, Stack } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useNavigate } from 'react-router';

import { fetchRestorePoints } from '../../api/checkpoints';
import type { RestorePoint } from '../../gen/contract';
import { useTimes } from '../../hooks/useTimes';
import type { Job } from '../../model/job';
import { AskDialog } from './AskDialog';
import classes from './JobActions.module.css';

interface Props {
  readonly job: Job;
  readonly isOpen: boolean;
  readonly onClose: () => void;
}

export function RunAgain({ job, isOpen, onClose }: Props) {
  const navigate = useNavigate();
  const times = useTimes();
  const { data, error } = useQuery({
    queryKey: ['restore-points', job.id],
    queryFn: () => fetchRestorePoints(job.id),
    enabled: isOpen,
    staleTime: 0,
  });
  const [chosen, setChosen] = useState<string | null>(null);
  const points = data?.points ?? [];
  const location = chosen ?? points[0]?.location ?? '';
  const program = data?.program ?? null;
  const go = () => {
    if (program === null) return;
    const query = new URLSearchParams({ program: program.id, again: job.id });
    if (location !== '') query.set('savepoint', location);
    void navigate(`/submit?${query.toString()}`);
  };
  return (
    <AskDialog
      title="Run this job again"
      isOpen={isOpen}
      onClose={onClose}
      onSubmit={go}
      action="Continue"
      isDisabled={program === null}
      problem={error?.message ?? null}
    >
      {data === undefined && error === null && <Skeleton height={90} />}
      {data !== undefined && program === null && (
        <p className={classes.text}>
          The program of <strong>{job.name}</strong> has been deleted.{' '}
          <Link to="/submit" className="tm-link">
            Upload it again
          </Link>{' '}
          to start it from one of these.
        </p>
      )}
      {data !== undefined && (
        <Radio.Group label="Start from" value={location} onChange={setChosen}>
          <Stack gap={10} mt={6}>
            {points.map((point) => (
              <Radio
                key={point.location}
                value={point.location}
                label={`${nameOf(point)}, ${times.dateTime(point.timestamp)}`}
                description={<span className={classes.path}>{point.location}</span>}
              />
            ))}
            <Radio value="" label="No state" description="From the beginning, as on its first start" />
          </Stack>
        </Radio.Group>
      )}
    </AskDialog>
  );
}

function nameOf({ kind, checkpoint_id: id }: RestorePoint): string {
  if (kind === 'start') return 'Snapshot that this job was started from';
  const name = kind === 'savepoint' ? 'Savepoint' : 'Checkpoint';
  return id === null ? name : `${name} ${id}`;
}
