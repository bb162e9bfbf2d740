/** What was changed here and elsewhere, with the choice between both. */

import { Button } from '@mantine/core';
import { useMemo } from 'react';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import type { Json } from '../../model/pipeline/document';
import {
  type Side as Chosen,
  decided,
  openConflicts,
  placeOf,
  valueOf,
  withoutPlace,
} from '../../model/pipeline/merge';
import { documentOf } from '../../store/editor';
import { t } from '../../texts/t';
import classes from './Conflicts.module.css';

/** Fields that two people have changed. The work goes on while they wait: what is here holds until then. */
export function Conflicts() {
  const store = useEditorStore();
  const all = useEditor((state) => state.conflicts);
  const document = useEditor(documentOf);
  const open = useMemo(() => openConflicts(document, all), [document, all]);
  const [conflict] = open;
  if (conflict === undefined) return null;
  const place = placeOf(conflict, document);
  const settle = (side: Chosen) => {
    const { transact, announce } = store.getState();
    if (!transact(t('Decided: {place}', { place }), (before) => decided(before, conflict, side)))
      announce(t('Kept: {place}', { place }));
    store.setState(({ conflicts }) => ({ conflicts: withoutPlace(conflicts, conflict) }));
  };
  return (
    <section className={classes.conflict} aria-label={t('Changed by both')}>
      <strong>{place}</strong>
      <span>
        {' '}
        {open.length > 1
          ? t('was changed here and elsewhere (1 of {count}).', { count: open.length })
          : t('was changed here and elsewhere.')}
      </span>
      <div className={classes.sides}>
        <Side title={t('Here')} value={valueOf(document, conflict, 'ours')} onTake={() => settle('ours')} />
        <Side title={t('Elsewhere')} value={valueOf(document, conflict, 'theirs')} onTake={() => settle('theirs')} />
      </div>
    </section>
  );
}

interface SideProps {
  readonly title: string;
  readonly value: Json | undefined;
  readonly onTake: () => void;
}

function Side({ title, value, onTake }: SideProps) {
  return (
    <div className={classes.side}>
      <div className={classes.sideTitle}>
        {title}
        <Button size="compact-xs" variant="default" onClick={onTake}>
          {t('Take this')}
        </Button>
      </div>
      <pre className={classes.value}>{shown(value)}</pre>
    </div>
  );
}

function shown(value: Json | undefined): string {
  if (value === undefined) return '(deleted)';
  return typeof value === 'string' ? value : JSON.stringify(value, null, 1);
}
