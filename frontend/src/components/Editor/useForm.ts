/** What the form of a node, or of the pipeline itself, needs around it; and the field that somebody jumps to. */

import { useEffect, useEffectEvent, useMemo, useState } from 'react';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import type { Column } from '../../model/pipeline/catalog';
import { parametersOf, typesOf } from '../../model/pipeline/declarations';
import type { Json } from '../../model/pipeline/document';
import { documentOf } from '../../store/editor';
import type { FormSurroundings } from './SchemaForm';

/** What surrounds the form of a node; null: of the pipeline itself. */
export function useForm(columns: (port: string) => readonly Column[], node: string | null): FormSurroundings {
  const store = useEditorStore();
  const all = useEditor((state) => state.validation.problems);
  const functions = useEditor((state) => state.catalog.functions);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  // new objects only where the declarations change: every field of the form reads them
  const declared = useEditor((state) => documentOf(state).parameters);
  const types = useEditor((state) => documentOf(state).types);
  const place = useEditor(({ focus }) => (focus?.node === node ? focus : null));
  // what other branches of a choice held lives as long as the panel
  const [remembered] = useState(() => new Map<string, Json>());
  return useMemo(
    () => ({
      columns,
      functions,
      problems: all.filter((problem) => problem.node === node),
      isReadOnly,
      // settings take none
      parameters: node === null ? [] : parametersOf({ parameters: declared ?? [] }),
      types: typesOf({ types: types ?? {} }),
      place,
      onSeal: () => store.getState().seal(),
      remembered,
    }),
    [columns, functions, all, node, isReadOnly, declared, types, place, store, remembered],
  );
}

/** When somebody jumps to a field of this node, or of the pipeline itself, gives it the focus. */
export function useFieldFocus(
  id: string | null,
  panel: React.RefObject<HTMLDivElement | null>,
  onForm: (field: string) => void,
): void {
  const store = useEditorStore();
  const focus = useEditor((state) => state.focus);
  const nonce = focus?.node === id ? focus.nonce : 0;
  const [seen, setSeen] = useState(0);
  if (nonce !== seen && focus?.field !== null && focus?.field !== undefined) {
    setSeen(nonce);
    onForm(focus.field);
  }
  const pointer = focus?.node === id ? focus.field : null;
  // it is done once: the panel may come back with an undo
  const onDone = useEffectEvent(() => {
    if (focus !== null) store.setState({ focus: { ...focus, field: null } });
  });
  useEffect(() => {
    if (pointer === null || panel.current === null) return;
    const within = panel.current;
    const parts = pointer.split('/');
    // the field itself, or what it is a part of
    for (let length = parts.length; length > 1; length -= 1) {
      const wanted = parts.slice(0, length).join('/');
      const field = [...within.querySelectorAll<HTMLElement>('[data-field]')].find(
        (each) => each.dataset.field === wanted,
      );
      if (field === undefined) continue;
      const input = field.matches('input, textarea')
        ? field
        : field.querySelector<HTMLElement>('input, textarea, .cm-content, button');
      field.scrollIntoView({ block: 'nearest' });
      input?.focus();
      onDone();
      return;
    }
  }, [nonce, pointer, panel]);
}
