/** Pipelines as files: export, import, copies; and the archive. */

import type { Export, ImportedPipeline } from '../gen/contract';
import { type PipelineDocument, freeName } from '../model/pipeline/document';
import { t } from '../texts/t';
import { call } from './client';
import { type Pipeline, type PipelineListed, createPipeline, fetchVersion, send } from './pipelines';

export type ExportFormat = 'json' | 'python';

/** A version as a file's name and text; without a number, the head. */
export function exportPipeline(id: string, format: ExportFormat, version?: number): Promise<Export> {
  const query = version === undefined ? { format } : { format, version };
  return call('GET /api/v1/pipelines/{pipeline_id}/export', { path: { pipeline_id: id }, query });
}

/** A document as a file's name and text, as it is drawn. */
export function exportDocument(document: PipelineDocument, format: ExportFormat): Promise<Export> {
  return send('/export', { method: 'POST', body: { document, format } });
}

/** `key` makes a repeated request create one pipeline only. */
export function importPipeline(document: unknown, key: string): Promise<ImportedPipeline> {
  return send('/import', { method: 'POST', body: { document }, headers: { 'Idempotency-Key': key } });
}

/** A version of a pipeline, and the pipeline's name. */
export interface Original {
  readonly id: string;
  readonly number: number;
  readonly name: string;
}

/** Creates a pipeline like a version of another one, under a name that is free. */
export async function duplicatePipeline(
  { id, number, name }: Original,
  taken: ReadonlySet<string>,
  key: string,
): Promise<Pipeline> {
  const { document } = await fetchVersion(id, number);
  return createPipeline({ ...document, name: freeName(t('{name} copy', { name }).slice(0, 200), taken) }, key);
}

export async function fetchArchived(): Promise<readonly PipelineListed[]> {
  return (await send<{ pipelines: PipelineListed[] }>('?archived=true')).pipelines;
}

export function bringBack(id: string): Promise<Pipeline> {
  return send(`/${id}`, { method: 'PATCH', body: { archived: false } });
}

/** Deletes an archived pipeline with all its versions. */
export async function deletePipeline(id: string): Promise<void> {
  await send(`/${id}`, { method: 'DELETE' });
}
