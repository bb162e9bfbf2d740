/** Opens a pipeline in the editor: its head, the user's draft, and what this browser has kept of it. */

import { Loader } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { useParams, useSearchParams } from 'react-router';

import { ApiError } from '../api/client';
import { takeOpening } from '../api/opening';
import { fetchCatalog, fetchDraft, fetchVersion } from '../api/pipelines';
import { Editor } from '../components/Editor/Editor';
import classes from '../components/Editor/Opening.module.css';
import { FailureState } from '../components/EmptyState/EmptyState';
import type { Begun } from '../hooks/useAutosave';
import { usePageTitle } from '../hooks/usePageTitle';
import { useRole, useSession } from '../hooks/useSession';
import { maySubmit } from '../model/access';
import type { Catalog } from '../model/pipeline/catalog';
import type { PipelineDocument } from '../model/pipeline/document';
import type { Conflict } from '../model/pipeline/merge';
import { localDrafts, mergeCopies } from '../store/drafts';
import { createEditor } from '../store/editor';
import { t } from '../texts/t';

interface Loaded {
  readonly catalog: Catalog;
  readonly head: { readonly number: number; readonly document: PipelineDocument };
  readonly begun: Begun;
  readonly document: PipelineDocument;
  readonly conflicts: readonly Conflict[];
  readonly others: readonly string[];
}

/** A saved version, to be read. */
async function loadVersion(id: string, number: number, user: string): Promise<Loaded> {
  const [catalog, { document }] = await Promise.all([fetchCatalog(), fetchVersion(id, number)]);
  const begun = { tag: null, onServer: document, user, copies: [] };
  return { catalog, head: { number, document }, begun, document, conflicts: [], others: [] };
}

async function load(id: string, user: string, mayEdit: boolean): Promise<Loaded> {
  const opening = takeOpening(id);
  const [catalog, pipeline, head, draft] = await Promise.all([
    opening.catalog,
    opening.pipeline,
    opening.head,
    mayEdit ? fetchDraft(id) : null,
  ]);
  const base = draft?.base ?? head.number;
  const version = base === head.number ? head : await fetchVersion(id, base);
  const onServer = draft?.document ?? version.document;
  // what this browser has kept is newer than what it had seen of the server
  const copies = mayEdit ? localDrafts(id, user) : [];
  const merged = mergeCopies(onServer, copies);
  return {
    catalog,
    head: { number: version.number, document: version.document },
    begun: { tag: draft?.tag ?? null, onServer, user, copies },
    document: merged.document,
    conflicts: merged.conflicts,
    others: pipeline.editors.flatMap((editor) => editor.user ?? []),
  };
}

export function EditorPage() {
  const { pipelineId = '' } = useParams();
  const { data: session } = useSession();
  const mayEdit = maySubmit(useRole());
  const user = session?.user.name ?? '';
  const version = Number(useSearchParams()[0].get('version') ?? 0) || null;
  const queryKey = useMemo(() => ['pipeline-editor', pipelineId, user, version] as const, [pipelineId, user, version]);
  const { data, error, refetch } = useQuery({
    queryKey,
    queryFn: () => (version === null ? load(pipelineId, user, mayEdit) : loadVersion(pipelineId, version, user)),
    staleTime: Infinity,
    gcTime: 0,
    retry: false,
  });
  const client = useQueryClient();
  // whoever comes back begins with what is there then
  useEffect(() => () => client.removeQueries({ queryKey }), [client, queryKey]);
  if (error !== null) {
    const isUnknown = error instanceof ApiError && error.status === 404;
    return (
      <FailureState
        isPage
        title={isUnknown ? t('Pipeline not found') : t('The pipeline cannot be opened')}
        message={error.message}
        {...(isUnknown ? {} : { onRetry: () => void refetch() })}
      />
    );
  }
  if (data === undefined)
    return (
      <>
        <h1 className="tm-visually-hidden">{t('Pipeline')}</h1>
        <Loader role="status" aria-label={t('Opening the pipeline')} className={classes.waiting ?? ''} />
      </>
    );
  const key = `${pipelineId} ${version ?? 'draft'}`;
  return <Open key={key} id={pipelineId} loaded={data} mayEdit={mayEdit && version === null} />;
}

interface OpenProps {
  readonly id: string;
  readonly loaded: Loaded;
  readonly mayEdit: boolean;
}

function Open({ id, loaded, mayEdit }: OpenProps) {
  const { catalog, document, head, begun, conflicts, others } = loaded;
  usePageTitle(document.name);
  const store = useMemo(() => {
    const made = createEditor({ pipelineId: id, catalog, document, head, isReadOnly: !mayEdit });
    made.setState({ conflicts });
    return made;
  }, [id, catalog, document, head, mayEdit, conflicts]);
  return <Editor store={store} begun={begun} others={others} />;
}
