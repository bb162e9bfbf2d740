/** Renames a column where it is named and in all nodes below, as one step of the history. */

import { Button, Group, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { renameColumn } from '../../api/pipelines';
import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { useWhenReady } from '../../hooks/useWhenReady';
import type { Facts, PatchStep } from '../../model/pipeline/catalog';
import { nameOf } from '../../model/pipeline/document';
import { applyPatch } from '../../model/pipeline/jsonPatch';
import type { Place } from '../../model/pipeline/preview';
import { documentOf } from '../../store/editor';
import { plural, t } from '../../texts/t';
import { Dialog } from '../Dialog/Dialog';

interface Props {
  readonly place: Place;
  readonly column: string;
  readonly facts: Facts;
  readonly onClose: () => void;
}

export function RenameColumn({ place, column, facts, onClose }: Props) {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  // who takes the name from elsewhere is renamed there
  const [at, setAt] = useState({ place, column });
  const [name, setName] = useState(column);
  const isNew = name !== '' && name !== at.column;
  const { data, error, isFetching } = useQuery({
    queryKey: ['rename-column', document, at, name],
    queryFn: ({ signal }) => renameColumn(document, at.place, at.column, name, signal),
    enabled: isNew,
    retry: false,
    gcTime: 0,
  });
  const origin = facts.origin?.[column];
  const isElsewhere = origin !== undefined && at.place[0] === place[0] && origin[0] !== place[0];
  const names = (ids: readonly string[]) => ids.map((id) => nameOf(document, id)).join(', ');
  const below = data?.nodes.slice(1) ?? [];
  const parts = new Set(
    (data?.patch as unknown as readonly PatchStep[] | undefined)?.map(({ path }) => path.split('/')[1]),
  );
  const kept = ['samples', 'tests'].filter((part) => parts.has(part));
  const rename = () => {
    if (data === undefined) return;
    store.getState().transact(t('Renamed the column {column} to {name}', { column: at.column, name }), (before) =>
      // what the server has looked at, and nothing else
      before === document ? applyPatch(before, data.patch as unknown as readonly PatchStep[]) : null,
    );
    onClose();
  };
  const { ask, isWaiting } = useWhenReady(data !== undefined && isNew, rename, name);
  return (
    <Dialog
      onClose={onClose}
      title={t('Rename {column} of {document}', { column: at.column, document: nameOf(document, at.place[0]) })}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isNew && error === null) ask();
        }}
      >
        <TextInput
          data-autofocus
          label={t('New name')}
          value={name}
          error={isNew ? error?.message : undefined}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        {isNew && error !== null && isElsewhere && (
          <Button
            mt="xs"
            size="compact-sm"
            variant="default"
            onClick={() => setAt({ place: [origin[0], 'out'], column: origin[1] })}
          >
            {t('Rename it at {document}', { document: nameOf(document, origin[0]) })}
          </Button>
        )}
        {data !== undefined && isNew && (
          <p className="tm-dim" role="status">
            {below.length === 0
              ? t('No node below uses it.')
              : `${plural(below.length, 'Also in 1 node below:', 'Also in {count} nodes below:')} ${names(below)}.`}
            {kept.length > 0 && ` ${t('Also in the pipeline’s {kept}.', { kept: kept.join(' and ') })}`}
            {data.by_hand.length > 0 &&
              ` ${t('Python to look at by hand: {byHand}.', { byHand: names(data.by_hand) })}`}
          </p>
        )}
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={onClose}>
            {t('Cancel')}
          </Button>
          <Button type="submit" loading={isWaiting && isFetching} disabled={!isNew || error !== null}>
            {t('Rename')}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
