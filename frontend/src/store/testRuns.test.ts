import { expect, test } from 'vitest';

import type { TestResult } from '../gen/contract';
import { line } from '../model/pipeline/testPipelines';
import { createTestRuns } from './testRuns';

function scripted(fails: readonly string[] = []) {
  const asked: string[] = [];
  const waiting: (() => void)[] = [];
  const store = createTestRuns(async (_, name) => {
    asked.push(name);
    await new Promise<void>((resolve) => waiting.push(resolve));
    if (fails.includes(name)) throw new Error(`no ${name}`);
    const result: TestResult = { name, passed: true, message: '', node: null, places: [], output: '' };
    return result;
  });
  const reply = async () => {
    waiting.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { store, asked, reply };
}

test('tests run one after the other, each once, and show as soon as they are known', async () => {
  const { store, asked, reply } = scripted();
  const document = line();
  void store.getState().run(document, ['a', 'b']);
  void store.getState().run(document, ['a']);
  await reply();
  expect(Object.keys(store.getState().runs)).toEqual(['a']);
  expect([...store.getState().running]).toEqual(['b']);
  await reply();
  expect(asked).toEqual(['a', 'b']);
  expect(store.getState().runs.b?.document).toBe(document);
  expect(store.getState().running.size).toBe(0);
});

test('a server that refuses ends the run, and says why', async () => {
  const { store, asked, reply } = scripted(['a']);
  void store.getState().run(line(), ['a', 'b']);
  await reply();
  expect(store.getState().error).toBe('no a');
  expect(store.getState().running.size).toBe(0);
  expect(asked).toEqual(['a']);
});
