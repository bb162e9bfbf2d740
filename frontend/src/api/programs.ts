/** Uploaded programs; Flink's routes call them jars. */

import type { JarList, JarUploaded, PlanAnswer, RunAnswer, RunRequest } from '../gen/live';
import { FLINK, request, upload } from './client';

export function fetchPrograms(): Promise<JarList> {
  return request(`${FLINK}/jars`);
}

/** Uploads a program and returns its id once it is stored. */
export async function uploadProgram(file: File, onProgress: (share: number) => void): Promise<string> {
  const answer = await upload<JarUploaded>(`${FLINK}/jars/upload`, 'jarfile', file, onProgress);
  return answer.filename.split('/').at(-1) ?? answer.filename;
}

export function deleteProgram(id: string): Promise<void> {
  return request(`${FLINK}/jars/${encodeURIComponent(id)}`, { method: 'DELETE' });
}

export function fetchPlan(id: string, settings: RunRequest): Promise<PlanAnswer> {
  return request(`${FLINK}/jars/${encodeURIComponent(id)}/plan`, { method: 'POST', body: settings });
}

/** The new job, with its program's output and warnings. */
export function runProgram(id: string, settings: RunRequest): Promise<RunAnswer> {
  return request(`${FLINK}/jars/${encodeURIComponent(id)}/run`, { method: 'POST', body: settings });
}
