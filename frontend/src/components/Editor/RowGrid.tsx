/** Rows typed in: a cell a field, with an event time for each row, and watermarks between rows where they are asked for. */

import { ActionIcon, Button } from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import { useState } from 'react';

import type { Column } from '../../model/pipeline/catalog';
import type { Json } from '../../model/pipeline/document';
import { isObject } from '../../model/pipeline/preview';
import * as grid from '../../model/pipeline/rowGrid';
import { t } from '../../texts/t';
import classes from './RowGrid.module.css';

interface Props {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly items: readonly grid.GivenItem[];
  readonly isReadOnly: boolean;
  /** Whether rows have event times here. */
  readonly hasTimes: boolean;
  readonly mayHaveWatermarks?: boolean;
  readonly onChange: (items: readonly grid.GivenItem[]) => void;
}

export function RowGrid({ label, columns, items, isReadOnly, hasTimes, mayHaveWatermarks = false, onChange }: Props) {
  const rows = items.flatMap((item) => (grid.isWatermark(item) ? [] : [item.row]));
  const shown = grid.gridColumns(columns, rows);
  const isPlain = rows.some((row) => !isObject(row));
  const heads = isPlain ? [{ name: 'value', type: '' }] : shown;
  const put = (index: number, item: grid.GivenItem) =>
    onChange(items.map((old, place) => (place === index ? item : old)));
  return (
    <div className={classes.grid}>
      <div className="tm-table-scroll" tabIndex={0} role="region" aria-label={label}>
        <table className={classes.table} aria-label={label}>
          <thead>
            <tr>
              {hasTimes && <th scope="col">{t('event time')}</th>}
              {heads.map(({ name, type }) => (
                <th key={name} scope="col">
                  {name} <span className={classes.type}>{type}</span>
                </th>
              ))}
              <th>
                <span className="tm-visually-hidden">{t('Remove')}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {items.map((item, index) => (
              <tr key={index} data-watermark={grid.isWatermark(item) || undefined}>
                {grid.isWatermark(item) ? (
                  <td colSpan={heads.length + (hasTimes ? 1 : 0)}>
                    <label className={classes.watermark}>
                      {t('Watermark')}
                      <CellField
                        label={t('Watermark {index}', { index: index + 1 })}
                        text={grid.timeText(item.watermark)}
                        isReadOnly={isReadOnly}
                        onText={(text) => {
                          const watermark = grid.parseTime(text);
                          if (watermark !== null) put(index, { watermark });
                        }}
                      />
                    </label>
                  </td>
                ) : (
                  <>
                    {hasTimes && (
                      <td>
                        <CellField
                          label={t('Event time of row {index}', { index: index + 1 })}
                          text={grid.timeText(item.time)}
                          isReadOnly={isReadOnly}
                          onText={(text) => {
                            const time = grid.parseTime(text);
                            if (text.trim() === '') put(index, { row: item.row });
                            else if (time !== null) put(index, { ...item, time });
                          }}
                        />
                      </td>
                    )}
                    {heads.map(({ name, type }) => (
                      <td key={name}>
                        <CellField
                          label={t('{name} of row {index}', { name, index: index + 1 })}
                          text={grid.editText(isObject(item.row) ? item.row[name] : item.row, type)}
                          isReadOnly={isReadOnly}
                          onText={(text) =>
                            put(index, { ...item, row: grid.withCell(item.row, name, grid.parseCell(text, type)) })
                          }
                        />
                      </td>
                    ))}
                  </>
                )}
                <td>
                  {!isReadOnly && (
                    <ActionIcon
                      size="xs"
                      variant="subtle"
                      color="gray"
                      aria-label={t('Remove row {index}', { index: index + 1 })}
                      onClick={() => onChange(items.filter((_, place) => place !== index))}
                    >
                      <IconX size={12} aria-hidden />
                    </ActionIcon>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {!isReadOnly && (
        <div className={classes.adding}>
          <Button
            size="compact-xs"
            variant="default"
            leftSection={<IconPlus size={12} aria-hidden />}
            onClick={() => onChange([...items, { row: lastRow(rows) ?? grid.emptyRow(heads) }])}
          >
            {t('Row')}
          </Button>
          {mayHaveWatermarks && (
            <Button
              size="compact-xs"
              variant="default"
              leftSection={<IconPlus size={12} aria-hidden />}
              onClick={() => onChange([...items, { watermark: nextWatermark(items) }])}
            >
              {t('Watermark')}
            </Button>
          )}
        </div>
      )}
    </div>
  );
}

/** A new row begins as the last one: tests differ in one value as a rule. */
function lastRow(rows: readonly Json[]): Json | undefined {
  return rows[rows.length - 1];
}

function nextWatermark(items: readonly grid.GivenItem[]): number {
  const times = items.map((item) => (grid.isWatermark(item) ? item.watermark : (item.time ?? 0)));
  return Math.max(0, ...times);
}

interface CellFieldProps {
  readonly label: string;
  readonly text: string;
  readonly isReadOnly: boolean;
  /** The cell was left with another text. */
  readonly onText: (text: string) => void;
}

function CellField({ label, text, isReadOnly, onText }: CellFieldProps) {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <input
      className={classes.cell}
      aria-label={label}
      value={typed ?? text}
      placeholder={isReadOnly ? '' : t('null')}
      readOnly={isReadOnly}
      onChange={(event) => setTyped(event.currentTarget.value)}
      onBlur={() => {
        if (typed !== null && typed !== text) onText(typed);
        setTyped(null);
      }}
      onKeyDown={(event) => {
        if (event.key === 'Enter') event.currentTarget.blur();
        if (event.key === 'Escape') {
          setTyped(null);
          event.stopPropagation();
        }
      }}
    />
  );
}
