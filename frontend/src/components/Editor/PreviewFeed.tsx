/** Brings what the server says of the running preview into its store. */

import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';

import { fetchPreview } from '../../api/pipelines';
import type { PreviewAnswer } from '../../gen/contract';
import { useTopic } from '../../hooks/useLive';
import { usePreview, usePreviewStore } from '../../hooks/usePreview';
import { isForgotten } from '../../store/preview';

/** Nobody announces that the process of a preview is gone: only a reader finds out. */
const LOOK_MS = 3_000;

export function PreviewFeed() {
  const id = usePreview(({ shown }) => (shown?.state === 'running' ? shown.id : null));
  return id === null ? null : <Feed key={id} id={id} />;
}

function Feed({ id }: { readonly id: string }) {
  const store = usePreviewStore();
  const live = useTopic(`preview:${id}`, (state) => state.data) as PreviewAnswer | undefined;
  const { data: read, error } = useQuery({
    queryKey: ['preview', id],
    queryFn: () => fetchPreview(id),
    refetchInterval: LOOK_MS,
    retry: false,
    gcTime: 0,
  });
  useEffect(() => {
    if (live !== undefined) store.getState().take(live);
  }, [store, live]);
  useEffect(() => {
    if (read !== undefined) store.getState().take(read);
  }, [store, read]);
  useEffect(() => {
    if (isForgotten(error)) store.getState().lose(id);
  }, [store, id, error]);
  return null;
}
