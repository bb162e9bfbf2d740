/** Runs of a pipeline's tests: the last result of each, of which document it is, and which run just now. */

import { createStore } from 'zustand/vanilla';

import type { TestResult } from '../gen/contract';
import type { PipelineDocument } from '../model/pipeline/document';

export interface TestRun {
  readonly result: TestResult;
  readonly document: PipelineDocument;
}

export interface TestRunsState {
  readonly runs: Readonly<Record<string, TestRun>>;
  readonly running: ReadonlySet<string>;
  readonly error: string | null;
  /** One after the other, so that each shows as soon as it is known. */
  readonly run: (document: PipelineDocument, names: readonly string[]) => Promise<void>;
}

/** Runs one test of a document. */
export type RunTest = (document: PipelineDocument, name: string) => Promise<TestResult>;

export type TestRunsStore = ReturnType<typeof createTestRuns>;

export function createTestRuns(runTest: RunTest) {
  return createStore<TestRunsState>()((set, get) => ({
    runs: {},
    running: new Set(),
    error: null,
    run: async (document, names) => {
      // what runs already is not started again
      const wanted = names.filter((name) => !get().running.has(name));
      set({ error: null, running: new Set([...get().running, ...wanted]) });
      const done = (name: string) => set({ running: new Set([...get().running].filter((each) => each !== name)) });
      for (const [index, name] of wanted.entries()) {
        try {
          const result = await runTest(document, name);
          set({ runs: { ...get().runs, [name]: { result, document } } });
          done(name);
        } catch (error) {
          set({ error: error instanceof Error ? error.message : String(error) });
          wanted.slice(index).forEach(done);
          return;
        }
      }
    },
  }));
}
