/** Saves what is drawn as a file; the server leaves its secrets out. */

import { useMutation } from '@tanstack/react-query';

import { exportDocument } from '../../api/pipelineFiles';
import { useEditorStore } from '../../hooks/useEditor';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { documentOf } from '../../store/editor';
import { exportFailed, saveExport } from '../Pipelines/saveExport';

export function useExport(): () => void {
  const store = useEditorStore();
  const { mutate } = useMutation({
    mutationFn: () => exportDocument(documentOf(store.getState()), 'json'),
    onSuccess: saveExport,
    onError: exportFailed,
  });
  const save = useSingleFlight(mutate);
  return () => save(undefined);
}
