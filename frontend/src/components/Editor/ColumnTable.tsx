/** Columns with their types, and how they differ from others: by a sign and a word, not by colour alone. */

import type { ReactNode } from 'react';

import type { ColumnChange } from '../../model/pipeline/catalog';
import { t } from '../../texts/t';
import classes from './Inspector.module.css';

const SIGNS = { same: '', added: '+', dropped: '−', type: '~' } as const;
const SAID = { same: '', added: t('added'), dropped: t('dropped'), type: t('another type') } as const;

interface Props {
  readonly changes: readonly ColumnChange[];
  readonly titleOf?: (name: string) => string | undefined;
  /** Behind the name of a column. */
  readonly more?: (change: ColumnChange) => ReactNode;
}

export function ColumnTable({ changes, titleOf, more }: Props) {
  return (
    <table className={`tm-table ${classes.columns ?? ''}`}>
      <caption className="tm-visually-hidden">{t('Columns')}</caption>
      <thead>
        <tr>
          <th scope="col">{t('Column')}</th>
          <th scope="col">{t('Type')}</th>
        </tr>
      </thead>
      <tbody>
        {changes.map((each) => {
          const { column, change, before } = each;
          return (
            <tr key={`${change} ${column.name}`} data-change={change}>
              <td title={titleOf?.(column.name)}>
                <span className={classes.sign} title={SAID[change]} aria-hidden>
                  {SIGNS[change]}
                </span>
                {change !== 'same' && <span className="tm-visually-hidden">{SAID[change]}: </span>}
                {column.name}
                {more?.(each)}
              </td>
              <td>{before === undefined ? column.type : `${before} → ${column.type}`}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
