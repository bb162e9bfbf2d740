/** The sign of busy, backpressured or idle time: its colour and its icon, beside a text or a number. */

import { type Icon, IconFlame, IconHandStop, IconZzz } from '@tabler/icons-react';
import { memo } from 'react';

import { LOAD_COLOUR, LOAD_NAME, type LoadKind } from '../../model/colour';
import { NOTHING, formatShare } from '../../model/format';
import classes from './LoadBar.module.css';

const ICONS: Readonly<Record<LoadKind, Icon>> = { busy: IconFlame, backPressured: IconHandStop, idle: IconZzz };

export const LoadMark = memo(function LoadMark({ kind }: { readonly kind: LoadKind }) {
  const MarkIcon = ICONS[kind];
  return (
    <span className={classes.mark} data-load={kind} style={{ background: LOAD_COLOUR[kind] }} aria-hidden>
      <MarkIcon size={10} stroke={2.4} />
    </span>
  );
});

/** A share of time with its sign; the name is there for those who see neither colour nor icon. */
export function LoadFigure({ kind, value }: { readonly kind: LoadKind; readonly value: number | null }) {
  return (
    <span className={`tm-live ${classes.figure ?? ''}`} title={LOAD_NAME[kind]}>
      <LoadMark kind={kind} />
      <span className="tm-visually-hidden">{LOAD_NAME[kind]} </span>
      {value === null ? NOTHING : formatShare(value)}
    </span>
  );
}
