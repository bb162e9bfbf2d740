/** A titled box, the building block of pages. */

import type { ReactNode } from 'react';

import classes from './Panel.module.css';

interface Props {
  readonly title?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
  /** No padding: tables and graphs reach the border. */
  readonly flush?: boolean;
  readonly label?: string;
}

export function Panel({ title, actions, children, flush = false, label }: Props) {
  return (
    <section className={classes.panel} aria-label={label ?? (typeof title === 'string' ? title : undefined)}>
      {(title !== undefined || actions !== undefined) && (
        <header className={classes.header}>
          <h2 className={classes.title}>{title}</h2>
          {actions}
        </header>
      )}
      <div className={flush ? classes.flush : classes.body}>{children}</div>
    </section>
  );
}
