/** Rows of a stream as a table: kind of change, event time, the watermark before, and the columns. */

import { Button, CopyButton } from '@mantine/core';
import { useState } from 'react';

import { useTimes } from '../../hooks/useTimes';
import type { Json } from '../../model/pipeline/document';
import { KIND_WORDS, type RowTable as Table, SHORT_CHARS, cellText, wholeText } from '../../model/pipeline/preview';
import { t } from '../../texts/t';
import { Dialog } from '../Dialog/Dialog';
import classes from './Preview.module.css';

interface Props {
  readonly table: Table;
  readonly label: string;
  readonly isStale?: boolean;
}

export function RowTable({ table, label, isStale = false }: Props) {
  const times = useTimes();
  const [whole, setWhole] = useState<{ readonly column: string; readonly value: Json } | null>(null);
  const { columns, rows, hasTimes, hasKinds } = table;
  return (
    <div className={`tm-table-scroll ${classes.scroll ?? ''}`} tabIndex={0} role="region" aria-label={label}>
      <table className={`tm-table ${classes.rows ?? ''}`} data-stale={isStale || undefined} aria-label={label}>
        <thead>
          <tr>
            <th scope="col" className="tm-num">
              #
            </th>
            {hasKinds && <th scope="col">{t('Change')}</th>}
            {hasTimes && <th scope="col">{t('Event time')}</th>}
            {hasTimes && <th scope="col">{t('Watermark')}</th>}
            {columns.map(({ name, type }) => (
              <th key={name} scope="col">
                {name}
                <span className={classes.type}>{type}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              <td className={`tm-num ${classes.number ?? ''}`}>{index + 1}</td>
              {hasKinds && (
                <td className={classes.kind} data-kind={row.kind} title={KIND_WORDS[row.kind]}>
                  {row.kind}
                </td>
              )}
              {hasTimes && (
                <td>
                  {row.time === null ? <Null /> : preciseTime(row.time, times.utc)}
                  {row.isLate && (
                    <span className={classes.late} title={t('Its event time is not after the watermark')}>
                      {t('late')}
                    </span>
                  )}
                </td>
              )}
              {hasTimes && (
                <td className="tm-dim">{row.watermark === null ? '–' : preciseTime(row.watermark, times.utc)}</td>
              )}
              {columns.map(({ name }, place) => (
                <Cell
                  key={name}
                  column={name}
                  value={row.cells[place] ?? null}
                  onWhole={(value) => setWhole({ column: name, value })}
                />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {whole !== null && (
        <Dialog onClose={() => setWhole(null)} title={whole.column} size="xl">
          <CopyButton value={wholeText(whole.value)} timeout={1500}>
            {({ copied, copy }) => (
              <Button size="compact-sm" variant="default" onClick={copy}>
                {copied ? t('Copied') : t('Copy')}
              </Button>
            )}
          </CopyButton>
          <pre className={classes.whole}>{wholeText(whole.value)}</pre>
        </Dialog>
      )}
    </div>
  );
}

function Null() {
  return <span className={classes.null}>{t('null')}</span>;
}

interface CellProps {
  readonly column: string;
  readonly value: Json;
  readonly onWhole: (value: Json) => void;
}

function Cell({ column, value, onWhole }: CellProps) {
  if (value === null) {
    return (
      <td>
        <Null />
      </td>
    );
  }
  const text = cellText(value);
  if (text.length <= SHORT_CHARS && !text.includes('\n')) {
    return <td className={typeof value === 'number' ? 'tm-num' : undefined}>{text}</td>;
  }
  return (
    <td>
      <button
        type="button"
        className={classes.long}
        aria-label={t('Show the whole value of {column}', { column })}
        onClick={() => onWhole(value)}
      >
        {text.slice(0, SHORT_CHARS)}…
      </button>
    </td>
  );
}

/** With ms: event times of one second are told apart. */
function preciseTime(ms: number, utc: boolean): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  const shifted = utc ? date : new Date(ms - date.getTimezoneOffset() * 60_000);
  return shifted.toISOString().replace('T', ' ').replace('Z', '');
}
