/** The latest checkpoint, savepoint, failure and restore. */

import type { ReactNode } from 'react';

import type { CheckpointEntry, JobCheckpoints } from '../../gen/contract';
import { useTimes } from '../../hooks/useTimes';
import { formatBytes, formatDuration } from '../../model/format';
import { t } from '../../texts/t';
import { CopyText } from '../CopyText/CopyText';
import { Panel } from '../Panel/Panel';
import classes from './Checkpoints.module.css';

export function LatestCheckpoints({ latest }: { readonly latest: JobCheckpoints['latest'] }) {
  const times = useTimes();
  const completed = (entry: CheckpointEntry | undefined) =>
    entry === undefined ? null : (
      <>
        <strong>{entry.id}</strong>
        <span className={classes.when}>{times.dateTime(entry.latest_ack_timestamp)}</span>
        <span>
          {t('{stateSize} in {endToEndDuration}', {
            stateSize: formatBytes(entry.state_size),
            endToEndDuration: formatDuration(entry.end_to_end_duration),
          })}
        </span>
        {entry.discarded ? (
          <span className="tm-dim">{t('deleted')}</span>
        ) : (
          <CopyText text={entry.external_path} label={t('path')} />
        )}
      </>
    );
  const { failed, restored } = latest;
  return (
    <Panel title={t('Overview')}>
      <dl className={classes.latest}>
        <Row name={t('Latest Completed Checkpoint')}>{completed(latest.completed)}</Row>
        <Row name={t('Latest Savepoint')}>{completed(latest.savepoint)}</Row>
        <Row name={t('Latest Failed Checkpoint')}>
          {failed !== undefined && (
            <>
              <strong>{failed.id}</strong>
              <span className={classes.when}>{times.dateTime(failed.failure_timestamp)}</span>
              <span>{failed.failure_message}</span>
            </>
          )}
        </Row>
        <Row name={t('Latest Restore')}>
          {restored !== undefined && (
            <>
              <strong>
                {restored.is_savepoint ? t('savepoint') : t('checkpoint')} {restored.id}
              </strong>
              <span className={classes.when}>{times.dateTime(restored.restore_timestamp)}</span>
              <CopyText text={restored.external_path} label={t('path')} />
            </>
          )}
        </Row>
      </dl>
    </Panel>
  );
}

function Row({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  const isEmpty = children === null || children === false;
  return (
    <>
      <dt>{name}</dt>
      <dd>{isEmpty ? <span className="tm-dim">{t('none')}</span> : children}</dd>
    </>
  );
}
