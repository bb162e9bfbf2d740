/** Asks what a node reads for its columns, shows how they differ from the declared ones, and takes them over as one step. */

import { Button, Group } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';

import { readSchema } from '../../api/pipelines';
import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { nameOf } from '../../model/pipeline/document';
import * as schemas from '../../model/pipeline/readSchema';
import { documentOf } from '../../store/editor';
import { t } from '../../texts/t';
import { Dialog } from '../Dialog/Dialog';
import { ColumnTable } from './ColumnTable';
import classes from './Inspector.module.css';

interface Props {
  readonly id: string;
  readonly onClose: () => void;
}

export function ReadSchema({ id, onClose }: Props) {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  // what was asked about; an edit meanwhile does not ask again
  const [asked] = useState(document);
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: ['read-schema', id, asked],
    queryFn: ({ signal }) => readSchema(asked, id, signal),
    retry: false,
    gcTime: 0,
    staleTime: Infinity,
    refetchOnWindowFocus: false,
  });
  const name = nameOf(document, id);
  const isSame = data !== undefined && schemas.isAsFound(document, id, data);
  const use = useRef<HTMLButtonElement>(null);
  const isFound = data !== undefined && !isFetching;
  // the button could not have the focus before
  useEffect(() => {
    if (isFound) use.current?.focus();
  }, [isFound]);
  const take = () => {
    if (data === undefined) return;
    store
      .getState()
      .transact(t('Read the columns of {name}', { name }), (before) => schemas.takenOver(before, id, data));
    onClose();
  };
  return (
    <Dialog onClose={onClose} title={t('Read schema: {name}', { name })}>
      <div role="status">
        {isFetching && <p className="tm-dim">{t('Asking for the columns…')}</p>}
        {!isFetching && data !== undefined && (
          <p className="tm-dim tm-break">
            {isSame
              ? t('The node declares just the columns of {origin}.', { origin: data.origin })
              : t('Columns of {origin}', { origin: data.origin })}
          </p>
        )}
      </div>
      {!isFetching && error !== null && (
        <p role="alert" className={`tm-break ${classes.failure ?? ''}`}>
          {error.message}
        </p>
      )}
      {!isFetching && data !== undefined && !isSame && (
        <div className={classes.found}>
          <ColumnTable changes={schemas.proposedChanges(document, id, data)} />
        </div>
      )}
      <Group justify="flex-end" mt="md">
        <Button variant="default" onClick={onClose}>
          {isSame ? t('Close') : t('Cancel')}
        </Button>
        {error !== null && (
          <Button loading={isFetching} onClick={() => void refetch()}>
            {t('Ask again')}
          </Button>
        )}
        {!isSame && error === null && (
          <Button ref={use} disabled={!isFound} onClick={take}>
            {t('Use these columns')}
          </Button>
        )}
      </Group>
    </Dialog>
  );
}
