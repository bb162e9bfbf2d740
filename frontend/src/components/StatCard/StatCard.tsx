/** One number of the cluster, with what it means. */

import type { ReactNode } from 'react';

import classes from './StatCard.module.css';

interface Props {
  readonly label: string;
  readonly value: ReactNode;
  readonly note?: ReactNode;
  readonly icon?: ReactNode;
}

export function StatCard({ label, value, note, icon }: Props) {
  return (
    <div className={classes.card} role="group" aria-label={label}>
      <div className={classes.label}>
        {icon}
        {label}
      </div>
      <div className={classes.value}>{value}</div>
      <div className={classes.note}>{note}</div>
    </div>
  );
}
