/** A job's checkpoints: counts, the latest ones, the history with details, the summary and the configuration. */

import { IconCheck, IconHistory, IconLoader, IconPlayerPlay, IconAlertTriangle } from '@tabler/icons-react';

import { useJobPart } from '../../hooks/useJob';
import { historyOf } from '../../model/checkpoints';
import { formatCount, formatDuration } from '../../model/format';
import { EmptyState } from '../EmptyState/EmptyState';
import { Panel } from '../Panel/Panel';
import { StatCard } from '../StatCard/StatCard';
import { CheckpointConfiguration } from './CheckpointConfiguration';
import { CheckpointGantt } from './CheckpointGantt';
import { CheckpointHistory } from './CheckpointHistory';
import classes from './Checkpoints.module.css';
import { CheckpointSummary } from './CheckpointSummary';
import { LatestCheckpoints } from './LatestCheckpoints';
import { RestoreReport } from './RestoreReport';

const ICON = { size: 15, stroke: 1.8, 'aria-hidden': true } as const;

export function CheckpointsTab() {
  const checkpoints = useJobPart(({ moving }) => moving.checkpoints);
  if (checkpoints === undefined) {
    return (
      <Panel label="Checkpoints">
        <EmptyState icon={IconHistory} title="No checkpoint statistics for this job">
          It ended under an earlier version of Tidemark.
        </EmptyState>
      </Panel>
    );
  }
  const { counts, config } = checkpoints;
  const history = historyOf(checkpoints);
  const every = config.interval === undefined ? 'not periodic' : `every ${formatDuration(config.interval)}`;
  return (
    <>
      <div className={classes.cards}>
        <StatCard
          label="Triggered"
          icon={<IconPlayerPlay {...ICON} />}
          value={formatCount(counts.total)}
          note={every}
        />
        <StatCard
          label="In Progress"
          icon={<IconLoader {...ICON} />}
          value={formatCount(counts.in_progress)}
          note={config.max_concurrent > 1 ? `at most ${config.max_concurrent}` : ''}
        />
        <StatCard label="Completed" icon={<IconCheck {...ICON} />} value={formatCount(counts.completed)} />
        <StatCard
          label="Failed"
          icon={<IconAlertTriangle {...ICON} color={counts.failed > 0 ? 'var(--tm-failed)' : undefined} />}
          value={formatCount(counts.failed)}
          note={`${config.tolerable_failures} consecutive failures are tolerated`}
        />
        <StatCard label="Restored" icon={<IconHistory {...ICON} />} value={formatCount(counts.restored)} note="times" />
      </div>
      <LatestCheckpoints latest={checkpoints.latest} />
      {history.length > 0 && <CheckpointGantt checkpoints={checkpoints} />}
      <Panel title="History" flush>
        {history.length === 0 ? (
          <EmptyState compact icon={IconHistory} title="No checkpoint yet">
            {config.interval === undefined
              ? 'execution.checkpointing.interval is not set. Savepoints can still be taken.'
              : 'The first one is taken once all tasks are running.'}
          </EmptyState>
        ) : (
          <CheckpointHistory history={history} />
        )}
      </Panel>
      {checkpoints.restore_report !== undefined && <RestoreReport report={checkpoints.restore_report} />}
      {counts.completed > 0 && <CheckpointSummary summary={checkpoints.summary} />}
      <CheckpointConfiguration config={config} />
    </>
  );
}
