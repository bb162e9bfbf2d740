/** What flows along an edge: columns and their origin, what the node before it has changed, and the stream's facts. */

import { ActionIcon, Button, Select } from '@mantine/core';
import { IconPencil } from '@tabler/icons-react';
import { Suspense, lazy, useState } from 'react';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { useIsStale, useRowsAt } from '../../hooks/usePreview';
import { type Facts, columnChanges } from '../../model/pipeline/catalog';
import { type Partitioning, nameOf } from '../../model/pipeline/document';
import * as operations from '../../model/pipeline/operations';
import type { Place } from '../../model/pipeline/preview';
import { factsBefore, factWords } from '../../model/pipeline/streams';
import { documentOf, factsOf } from '../../store/editor';
import { plural, t } from '../../texts/t';
import { removeSelected } from './actions';
import { ColumnTable } from './ColumnTable';
import classes from './Inspector.module.css';

const RenameColumn = lazy(async () => ({ default: (await import('./RenameColumn')).RenameColumn }));

const PARTITIONINGS = ['rebalance', 'rescale', 'shuffle', 'broadcast', 'global'];

export function EdgePanel({ id }: { readonly id: string }) {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const edge = document.edges[id];
  const facts = useEditor((state) => (edge === undefined ? null : factsOf(state, edge.from)));
  const rows = useRowsAt(edge?.from);
  const isStale = useIsStale(edge?.from[0] ?? '');
  if (edge === undefined) return null;
  return (
    <div className={classes.inspector}>
      <header className={classes.head}>
        <h2 className={classes.title}>
          {nameOf(document, edge.from[0])} → {nameOf(document, edge.to[0])}
        </h2>
      </header>
      <div className={classes.body}>
        {facts === null ? <UnknownStream /> : <StreamFacts title={t('Flows here')} facts={facts} place={edge.from} />}
        {rows !== null && (
          <p className={classes.marks}>
            {plural(rows, '1 row in the preview', '{count} rows in the preview')}
            {isStale && `, ${t('of an earlier draft')}`}
          </p>
        )}
        <Select
          mt="md"
          label={t('Partitioning')}
          size="sm"
          clearable
          placeholder={t('as the nodes need it')}
          data={PARTITIONINGS}
          value={edge.partitioning ?? null}
          disabled={isReadOnly}
          onChange={(value) =>
            store
              .getState()
              .transact(t('Changed the partitioning'), (before) =>
                operations.setPartitioning(before, id, value as Partitioning | null),
              )
          }
        />
        {!isReadOnly && (
          <Button mt="md" size="compact-sm" variant="default" onClick={() => removeSelected(store)}>
            {t('Delete the connection')}
          </Button>
        )}
      </div>
    </div>
  );
}

export function UnknownStream() {
  return <p className="tm-dim">{t('Not known yet: something above is unfinished.')}</p>;
}

interface StreamFactsProps {
  readonly title: string;
  readonly facts: Facts;
  /** The output that the stream leaves. */
  readonly place: Place;
  /** Whether the node at `place` is the one in the panel, so that what comes in is compared. */
  readonly isInput?: boolean;
}

export function StreamFacts({ title, facts, place, isInput = false }: StreamFactsProps) {
  const document = useEditor(documentOf);
  const validation = useEditor((state) => state.validation);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const [renaming, setRenaming] = useState<string | null>(null);
  const before = isInput ? null : factsBefore(document, validation, place[0]);
  return (
    <section>
      <h2 className={classes.small}>{title}</h2>
      <p className={classes.marks}>{factWords(facts).join(' · ')}</p>
      {facts.columns === null ? (
        <p className="tm-dim">{t('Python objects, without columns.')}</p>
      ) : (
        <ColumnTable
          changes={columnChanges(before, facts.columns)}
          titleOf={(name) => originText(document, facts, name)}
          more={({ column, change }) => (
            <>
              {facts.time_column === column.name && <span className="tm-dim"> {t('event time')}</span>}
              {facts.unique_key?.includes(column.name) === true && <span className="tm-dim"> {t('key')}</span>}
              {!isReadOnly && change !== 'dropped' && (
                <ActionIcon
                  size="xs"
                  variant="subtle"
                  color="gray"
                  ml={4}
                  aria-label={t('Rename the column {name}', { name: column.name })}
                  onClick={() => setRenaming(column.name)}
                >
                  <IconPencil size={12} aria-hidden />
                </ActionIcon>
              )}
            </>
          )}
        />
      )}
      {renaming !== null && (
        <Suspense>
          <RenameColumn place={place} column={renaming} facts={facts} onClose={() => setRenaming(null)} />
        </Suspense>
      )}
    </section>
  );
}

function originText(document: Parameters<typeof nameOf>[0], facts: Facts, column: string): string | undefined {
  const origin = facts.origin?.[column];
  return origin === undefined
    ? undefined
    : t('{origin} of {document}', { origin: origin[1], document: nameOf(document, origin[0]) });
}
