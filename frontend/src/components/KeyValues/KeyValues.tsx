/** Names and values, side by side. */

import type { ReactNode } from 'react';

import classes from './KeyValues.module.css';

interface Props {
  readonly rows: readonly (readonly [string, ReactNode])[];
}

export function KeyValues({ rows }: Props) {
  return (
    <dl className={classes.list}>
      {rows.map(([name, value]) => (
        <div key={name} className={classes.row}>
          <dt className={classes.name}>{name}</dt>
          <dd className={classes.value}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
