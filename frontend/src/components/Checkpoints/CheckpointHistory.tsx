/** The last checkpoints and savepoints; each row expands to its vertices and their subtasks. */

import { IconChevronRight } from '@tabler/icons-react';
import { Fragment } from 'react';

import type { CheckpointEntry } from '../../gen/contract';
import { useServerNow } from '../../hooks/useNow';
import { useOpenItems } from '../../hooks/useOpenItems';
import { useTimes } from '../../hooks/useTimes';
import { acknowledged, durationOf, toneOfCheckpoint, typeOf } from '../../model/checkpoints';
import { formatBytes, formatDuration } from '../../model/format';
import { t } from '../../texts/t';
import { ToneBadge } from '../StateBadge/StateBadge';
import { CheckpointDetails } from './CheckpointDetails';
import classes from './Checkpoints.module.css';

const COLUMNS = 10;

interface Props {
  readonly history: readonly CheckpointEntry[];
}

export function CheckpointHistory({ history }: Props) {
  const [open, toggle] = useOpenItems('checkpoint');
  const times = useTimes();
  const now = useServerNow();
  return (
    <div className="tm-table-scroll">
      <table className={`tm-table ${classes.table ?? ''}`}>
        <caption className="tm-visually-hidden">{t('Checkpoints')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('ID')}</th>
            <th scope="col">{t('Status')}</th>
            <th scope="col">{t('Checkpoint Type')}</th>
            <th scope="col">{t('Acknowledged')}</th>
            <th scope="col">{t('Trigger Time')}</th>
            <th scope="col">{t('Latest Acknowledgment')}</th>
            <th scope="col" className="tm-num">
              {t('End to End Duration')}
            </th>
            <th scope="col" className="tm-num">
              {t('Checkpointed Data Size')}
            </th>
            <th scope="col" className="tm-num">
              {t('Full Checkpoint Data Size')}
            </th>
            <th scope="col" className="tm-num">
              {t('Processed (persisted) in-flight data')}
            </th>
          </tr>
        </thead>
        <tbody>
          {history.map((entry) => (
            <Fragment key={entry.id}>
              <tr>
                <td>
                  <button
                    type="button"
                    className={classes.toggle}
                    aria-expanded={open.has(String(entry.id))}
                    aria-label={t('Checkpoint {id}, details', { id: entry.id })}
                    onClick={() => toggle(String(entry.id))}
                  >
                    <IconChevronRight size={15} aria-hidden /> {entry.id}
                  </button>
                </td>
                <td>
                  <ToneBadge tone={toneOfCheckpoint(entry.status)} plain>
                    {entry.status.replace('_', ' ')}
                  </ToneBadge>
                </td>
                <td>{typeOf(entry)}</td>
                <td>{acknowledged(entry)}</td>
                <td>{times.dateTime(entry.trigger_timestamp)}</td>
                <td>{entry.latest_ack_timestamp < 0 ? '–' : times.time(entry.latest_ack_timestamp)}</td>
                <td className="tm-num">{formatDuration(durationOf(entry, now))}</td>
                <td className="tm-num">{formatBytes(entry.checkpointed_size)}</td>
                <td className="tm-num">{formatBytes(entry.state_size)}</td>
                <td className="tm-num">
                  {formatBytes(entry.processed_data)} ({formatBytes(entry.persisted_data)})
                </td>
              </tr>
              {open.has(String(entry.id)) && (
                <tr className={classes.detailsRow}>
                  <td className={classes.details} colSpan={COLUMNS}>
                    <CheckpointDetails entry={entry} />
                  </td>
                </tr>
              )}
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  );
}
