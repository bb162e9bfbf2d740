/** The open editor's store, for the components below it. */

import { createContext, useContext } from 'react';
import { useStore } from 'zustand';

import type { EditorState, EditorStore } from '../store/editor';

export const EditorContext = createContext<EditorStore | null>(null);

export function useEditorStore(): EditorStore {
  const store = useContext(EditorContext);
  if (store === null) throw new Error('there is no editor around this component');
  return store;
}

export function useEditor<T>(selector: (state: EditorState) => T): T {
  return useStore(useEditorStore(), selector);
}
