/** Rows that are pinned to a source: previews use them in its place. They change nothing of the job. */

import type { PreviewPort } from '../../gen/contract';
import type { Json, PipelineDocument } from './document';
import { without } from './document';
import { isObject } from './preview';

export interface SampleRow {
  readonly row: Json;
  /** Event time, ms; absent: the source's own strategy finds it. */
  readonly time?: number | null;
}

export interface Sample {
  readonly rows: readonly SampleRow[];
  readonly pinned: boolean;
}

export function sampleOf(document: PipelineDocument, node: string): Sample | null {
  const found = document.samples?.[node];
  if (!isObject(found) || !Array.isArray(found.rows)) return null;
  return { rows: (found.rows as readonly Json[]).map(rowOfPair), pinned: found.pinned === true };
}

export function isPinned(document: PipelineDocument, node: string): boolean {
  return sampleOf(document, node)?.pinned === true;
}

/** The shown rows of a source, to be pinned. */
export function sampleRows(port: PreviewPort): readonly SampleRow[] {
  return port.sample.map((row, index) => {
    const time = port.times[index] ?? null;
    return time === null ? { row: row as Json } : { row: row as Json, time };
  });
}

/** Documents hold rows with their event times as pairs. */
export function rowOfPair(pair: Json): SampleRow {
  const [row = null, time = null] = Array.isArray(pair) ? (pair as readonly Json[]) : [pair];
  return typeof time === 'number' ? { row, time } : { row };
}

export function pairOfRow({ row, time }: SampleRow): Json {
  return [row, time ?? null];
}

/** Gives a node's sample other rows; without rows there is none. */
export function withSample(document: PipelineDocument, node: string, sample: Sample | null): PipelineDocument {
  if (document.nodes[node] === undefined) return document;
  const samples = without(document.samples ?? {}, new Set([node]));
  const kept =
    sample === null ? samples : { ...samples, [node]: { pinned: sample.pinned, rows: sample.rows.map(pairOfRow) } };
  return { ...document, samples: kept };
}
