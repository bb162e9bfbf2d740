/** What a job begins with: a snapshot of a list, one at a path, or no state. */

import { Radio, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';

import type { PipelineRestorePoint, RestorePoint } from '../../gen/contract';
import { useTimes } from '../../hooks/useTimes';
import { formatBytes } from '../../model/format';
import { t } from '../../texts/t';
import classes from './RestoreChoice.module.css';

export type Beginning =
  /** The state of the job that is replaced. */
  { readonly kind: 'keep' } | { readonly kind: 'empty' } | { readonly kind: 'snapshot'; readonly location: string };

interface Props {
  readonly label: string;
  readonly points: readonly (RestorePoint | PipelineRestorePoint)[];
  /** Null: nothing is chosen yet. */
  readonly value: Beginning | null;
  readonly onChange: (value: Beginning) => void;
  /** The label of keeping the running job's state; null: nothing runs. */
  readonly keep: string | null;
  /** Why snapshots are not offered; null: all are. */
  readonly note?: string | null;
  readonly empty: { readonly label: string; readonly description?: string };
}

const AT = 'at ';
const PATH = 'path';

export function RestoreChoice({ label, points, value, onChange, keep, empty, note = null }: Props) {
  const times = useTimes();
  const location = value?.kind === 'snapshot' ? value.location : '';
  const isListed = points.some((point) => point.location === location);
  // what is typed is looked at once it is there as a whole
  const [typed, setTyped] = useState(isListed ? '' : location);
  const chosen = value?.kind !== 'snapshot' ? (value?.kind ?? null) : isListed ? AT + location : PATH;
  const choose = (next: string) => {
    if (next === 'keep' || next === 'empty') onChange({ kind: next });
    else onChange({ kind: 'snapshot', location: next === PATH ? typed : next.slice(AT.length) });
  };
  const finish = () => {
    if (chosen === PATH && typed.trim() !== location) onChange({ kind: 'snapshot', location: typed.trim() });
  };
  return (
    <Radio.Group label={label} value={chosen} onChange={choose}>
      <Stack gap={10} mt={6}>
        {keep !== null && <Radio value="keep" label={keep} />}
        {points.length > 0 && (
          <div className={classes.points}>
            {points.map((point) => (
              <Radio
                key={point.location}
                value={AT + point.location}
                label={`${nameOf(point)}, ${times.dateTime(point.timestamp)}`}
                description={<span className={classes.path}>{`${detailOf(point)}${point.location}`}</span>}
              />
            ))}
          </div>
        )}
        {note !== null && <p className={classes.note}>{note}</p>}
        <Radio
          value={PATH}
          label={t('Another snapshot')}
          description={t('Its directory, or the path of its metadata')}
        />
        {chosen === PATH && (
          <TextInput
            aria-label={t('Path of the snapshot')}
            placeholder="file:///…/savepoint-…"
            autoFocus
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            onBlur={finish}
            onKeyDown={(event) => {
              if (event.key !== 'Enter' || typed.trim() === location) return;
              event.preventDefault();
              finish();
            }}
            classNames={{ root: classes.field ?? '', input: 'tm-mono' }}
          />
        )}
        <Radio value="empty" label={empty.label} description={empty.description} />
      </Stack>
    </Radio.Group>
  );
}

function nameOf({ kind, checkpoint_id: id }: RestorePoint): string {
  if (kind === 'start') return t('Snapshot that this job was started from');
  const name = kind === 'savepoint' ? t('Savepoint') : t('Checkpoint');
  return id === null ? name : `${name} ${id}`;
}

function detailOf(point: RestorePoint | PipelineRestorePoint): string {
  const version = 'version' in point ? [t('of version {version}', { version: point.version })] : [];
  const size = point.size === null ? [] : [formatBytes(point.size)];
  const told = [...version, ...size].join(', ');
  return told === '' ? '' : `${told}: `;
}
