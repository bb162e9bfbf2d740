/** Tests of a pipeline: what is given in place of its sources, and the rows that shall come out. Part of the document. */

import type { TestResult } from '../../gen/contract';
import { type Json, type PipelineDocument, freeName } from './document';
import { isSameJob, isSameValue } from './order';
import { type Place, isObject } from './preview';
import { type GivenItem, isWatermark } from './rowGrid';
import { type SampleRow, pairOfRow, rowOfPair, sampleOf } from './samples';

/** Of each source, when a test is made from a preview: enough to see by, few enough to read. */
export const GIVEN_ROWS = 50;

export interface PipelineTest {
  readonly name: string;
  /** By source node. */
  readonly given: Readonly<Record<string, readonly GivenItem[]>>;
  /** By place: "node", or "node/port" for another port than the first one. */
  readonly expect: Readonly<Record<string, readonly Json[]>>;
}

export function testsOf(document: PipelineDocument): readonly PipelineTest[] {
  return (document.tests ?? []).filter(isObject).map((value) => ({
    name: typeof value.name === 'string' ? value.name : '',
    given: mapped(isObject(value.given) ? value.given : {}, itemOfPair),
    expect: (isObject(value.expect) ? value.expect : {}) as unknown as PipelineTest['expect'],
  }));
}

function mapped<T>(lists: Readonly<Record<string, Json>>, read: (item: Json) => T): Record<string, readonly T[]> {
  return Object.fromEntries(
    Object.entries(lists).map(([key, list]) => [key, Array.isArray(list) ? (list as readonly Json[]).map(read) : []]),
  );
}

/** Stands in the place of a row where a watermark is given. */
const WATERMARK = 'watermark';

function itemOfPair(pair: Json): GivenItem {
  const item = rowOfPair(pair);
  return item.row === WATERMARK ? { watermark: item.time ?? 0 } : item;
}

function pairOfItem(item: GivenItem): Json {
  return isWatermark(item) ? [WATERMARK, item.watermark] : pairOfRow(item);
}

/** The test as documents hold it. */
function stored({ name, given, expect }: PipelineTest): Json {
  const pairs = Object.entries(given).map(([node, items]) => [node, items.map(pairOfItem)] as const);
  return { name, given: Object.fromEntries(pairs), expect };
}

export function testOf(document: PipelineDocument, name: string): PipelineTest | undefined {
  return testsOf(document).find((test) => test.name === name);
}

/** The document with a test in place of the one of that name; without one, it is added. */
export function withTest(document: PipelineDocument, name: string | null, test: PipelineTest): PipelineDocument {
  const tests = testsOf(document);
  const taken = new Set(tests.map((each) => each.name).filter((each) => each !== name));
  const made = { ...test, name: freeName(test.name.trim() === '' ? 'Test' : test.name.trim(), taken) };
  const isThere = tests.some((each) => each.name === name);
  const next = isThere ? tests.map((each) => (each.name === name ? made : each)) : [...tests, made];
  return { ...document, tests: next.map(stored) };
}

export function withoutTest(document: PipelineDocument, name: string): PipelineDocument {
  const kept = testsOf(document).filter((test) => test.name !== name);
  return { ...document, tests: kept.map(stored) };
}

export function expectKey([node, port]: Place): string {
  return port === 'out' || port === 'in' ? node : `${node}/${port}`;
}

export function placeOfKey(document: PipelineDocument, key: string, isSink: boolean): Place {
  const [node = '', port] = key.split('/');
  return [node, port ?? (isSink && document.nodes[node] !== undefined ? 'in' : 'out')];
}

/** The rows that a test from a preview gives: pinned ones, else the first that the source has shown. */
export function givenRows(
  document: PipelineDocument,
  sources: readonly string[],
  shown: (node: string) => readonly SampleRow[],
): PipelineTest['given'] {
  return Object.fromEntries(
    sources.map((node) => {
      const sample = sampleOf(document, node);
      return [node, (sample?.pinned === true ? sample.rows : shown(node)).slice(0, GIVEN_ROWS)];
    }),
  );
}

/** Whether a result is of what the document and the test are now. */
export function isCurrent(tested: PipelineDocument, present: PipelineDocument, name: string): boolean {
  return tested === present || (isSameValue(testOf(tested, name), testOf(present, name)) && isSameJob(tested, present));
}

/** The rows that came at a place, from a comparison with nothing. */
export function rowsThatCame(result: TestResult, [node, port]: Place): readonly Json[] {
  const place = result.places.find((each) => each.node === node && each.port === port);
  return (place?.rows ?? []).filter(({ state }) => state !== 'missing').map(({ row }) => row as Json);
}

export function verdictOf(result: TestResult): string {
  if (result.passed) return 'Passed';
  if (result.message !== '') return result.message;
  const rows = result.places.flatMap((place) => place.rows);
  const count = (state: string) => rows.filter((row) => row.state === state).length;
  return `${count('missing')} missing, ${count('unexpected')} unexpected`;
}
