/**
 * Idempotency keys of deployments that were asked for and not answered: a double click, a reload or a lost answer asks
 * for the same deployment again. Kept in this browser, by pipeline and by what is wanted.
 */

import type { DeploymentAnswer, NewDeployment } from '../gen/contract';
import { isUnderWay } from '../model/pipeline/deployment';
import { makeId } from './editor';

const PREFIX = 'tidemark.deploy.';

interface Kept {
  readonly wanted: string;
  readonly key: string;
}

/**
 * Has a wish granted once.
 *
 * The answer to a key that was kept may be a deployment that an earlier request has made. Made since the user was asked,
 * or still under way, it is the answer that was lost: sent with another key, the same would be done twice. Over before
 * the user was asked, it is the end of an earlier wish, whose answer this page never got: what is wanted now is another
 * deployment.
 *
 * `before` has the ids of the deployments that there were when the user was asked.
 */
export async function deployOnce(
  pipeline: string,
  wanted: NewDeployment,
  before: ReadonlySet<string>,
  send: (wanted: NewDeployment, key: string) => Promise<DeploymentAnswer>,
): Promise<DeploymentAnswer> {
  const made = await send(wanted, deployKey(pipeline, wanted));
  dropDeployKey(pipeline);
  if (!before.has(made.id) || isUnderWay(made)) return made;
  const another = await send(wanted, deployKey(pipeline, wanted));
  dropDeployKey(pipeline);
  return another;
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
