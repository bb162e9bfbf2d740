/** Uploaded programs; Flink's routes call them jars. */

import type { JarList, PlanAnswer, RunAnswer, RunRequest } from '../gen/contract';
import { call, upload } from './client';

export function fetchPrograms(): Promise<JarList> {
  return call('GET /v1/jars');
}

/** Uploads a program and returns its id once it is stored. */
export async function uploadProgram(file: File, onProgress: (share: number) => void): Promise<string> {
  const answer = await upload(file, onProgress);
  return answer.filename.split('/').at(-1) ?? answer.filename;
}

export async function deleteProgram(id: string): Promise<void> {
  await call('DELETE /v1/jars/{jar_id}', { path: { jar_id: id } });
}

export function fetchPlan(id: string, settings: RunRequest): Promise<PlanAnswer> {
  return call('POST /v1/jars/{jar_id}/plan', { path: { jar_id: id }, body: settings });
}

/** The new job, with its program's output and warnings. */
export function runProgram(id: string, settings: RunRequest): Promise<RunAnswer> {
  return call('POST /v1/jars/{jar_id}/run', { path: { jar_id: id }, body: settings });
}
