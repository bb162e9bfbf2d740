/** A job's checkpoints: counts, the latest ones, the history with details, the summary and the configuration. */

import { IconCheck, IconHistory, IconLoader, IconPlayerPlay, IconAlertTriangle } from '@tabler/icons-react';

import { useJobPart } from '../../hooks/useJob';
import { historyOf } from '../../model/checkpoints';
import { formatCount, formatDuration } from '../../model/format';
import { t } from '../../texts/t';
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
      <Panel label={t('Checkpoints')}>
        <EmptyState icon={IconHistory} title={t('No checkpoint statistics for this job')}>
          {t('It ended under an earlier version of Tidemark.')}
        </EmptyState>
      </Panel>
    );
  }
  const { counts, config } = checkpoints;
  const history = historyOf(checkpoints);
  const every =
    config.interval === undefined
      ? t('not periodic')
      : t('every {interval}', { interval: formatDuration(config.interval) });
  return (
    <>
      <div className={classes.cards}>
        <StatCard
          label={t('Triggered')}
          icon={<IconPlayerPlay {...ICON} />}
          value={formatCount(counts.total)}
          note={every}
        />
        <StatCard
          label={t('In Progress')}
          icon={<IconLoader {...ICON} />}
          value={formatCount(counts.in_progress)}
          note={config.max_concurrent > 1 ? t('at most {maxConcurrent}', { maxConcurrent: config.max_concurrent }) : ''}
        />
        <StatCard label={t('Completed')} icon={<IconCheck {...ICON} />} value={formatCount(counts.completed)} />
        <StatCard
          label={t('Failed')}
          icon={<IconAlertTriangle {...ICON} color={counts.failed > 0 ? 'var(--tm-failed)' : undefined} />}
          value={formatCount(counts.failed)}
          note={t('{tolerableFailures} consecutive failures are tolerated', {
            tolerableFailures: config.tolerable_failures,
          })}
        />
        <StatCard
          label={t('Restored')}
          icon={<IconHistory {...ICON} />}
          value={formatCount(counts.restored)}
          note={t('times')}
        />
      </div>
      <LatestCheckpoints latest={checkpoints.latest} />
      {history.length > 0 && <CheckpointGantt checkpoints={checkpoints} />}
      <Panel title={t('History')} flush>
        {history.length === 0 ? (
          <EmptyState compact icon={IconHistory} title={t('No checkpoint yet')}>
            {config.interval === undefined
              ? t('execution.checkpointing.interval is not set. Savepoints can still be taken.')
              : t('The first one is taken once all tasks are running.')}
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
