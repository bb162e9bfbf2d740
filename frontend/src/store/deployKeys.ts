/**
 * Idempotency keys of deployments that were asked for and not answered: a double click, a reload or a lost answer asks
 * for the same deployment again. Kept in this browser, by pipeline and by what is wanted.
 */

import { makeId } from './editor';

const PREFIX = 'tidemark.deploy.';

interface Kept {
  readonly wanted: string;
  readonly key: string;
}

/** The key for a wish: the same until it is answered. */
export function deployKey(pipeline: string, wanted: unknown): string {
  const text = JSON.stringify(wanted);
  const kept = read(pipeline);
  if (kept?.wanted === text) return kept.key;
  const key = makeId() + makeId();
  try {
    localStorage.setItem(PREFIX + pipeline, JSON.stringify({ wanted: text, key } satisfies Kept));
  } catch {
    // no storage: a double click is still one request, a reload is not
  }
  return key;
}

/** Whatever is asked for from now on is another deployment. */
export function dropDeployKey(pipeline: string): void {
  try {
    localStorage.removeItem(PREFIX + pipeline);
  } catch {
    // nothing was kept
  }
}

function read(pipeline: string): Kept | null {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + pipeline) ?? 'null') as Kept | null;
  } catch {
    return null;
  }
}
