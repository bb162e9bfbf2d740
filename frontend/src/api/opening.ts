/** Asks for all that the editor needs of a pipeline when its address is opened, while the page is still being loaded. */

import type { Catalog } from '../model/pipeline/catalog';
import { type Pipeline, type Version, fetchCatalog, fetchHead, fetchPipeline } from './pipelines';

interface Opening {
  readonly id: string;
  readonly catalog: Promise<Catalog>;
  readonly pipeline: Promise<Pipeline>;
  readonly head: Promise<Version>;
}

let begun: Opening | null = null;

function begin(id: string): Opening {
  return { id, catalog: fetchCatalog(), pipeline: fetchPipeline(id), head: fetchHead(id) };
}

/** Asks for a pipeline that is about to be opened. */
export function beginOpening(id: string): void {
  begun = begin(id);
  // whoever takes it is told what failed; nobody does where a login is needed first
  for (const each of [begun.catalog, begun.pipeline, begun.head]) each.catch(() => undefined);
}

/** Hands out the answers that were asked for, or asks now: each is used once. */
export function takeOpening(id: string): Opening {
  const taken = begun?.id === id ? begun : begin(id);
  begun = null;
  return taken;
}
