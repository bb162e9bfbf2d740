/** The pipeline as a list from the sources down: what the outline shows. */

import type { PipelineDocument } from './document';
import { nameOf } from './document';
import { groupOf } from './groups';
import { ranks, topologicalOrder } from './order';

export interface OutlineItem {
  readonly id: string;
  /** Distance from the sources, from 1 on. */
  readonly level: number;
  /** Names of the nodes at the inputs and behind the outputs. */
  readonly from: readonly string[];
  readonly to: readonly string[];
  /** The group that it is in. */
  readonly group: { readonly id: string; readonly name: string; readonly collapsed: boolean } | null;
}

export function outline(document: PipelineDocument): readonly OutlineItem[] {
  const ranked = ranks(document);
  const from = new Map<string, string[]>();
  const to = new Map<string, string[]>();
  for (const edge of Object.values(document.edges)) {
    append(to, edge.from[0], nameOf(document, edge.to[0]));
    append(from, edge.to[0], nameOf(document, edge.from[0]));
  }
  return topologicalOrder(document).map((id) => {
    const [group, known] = groupOf(document, id) ?? [];
    return {
      id,
      level: (ranked.get(id) ?? 0) + 1,
      from: from.get(id) ?? [],
      to: to.get(id) ?? [],
      group: group === undefined || known === undefined ? null : { ...known, id: group },
    };
  });
}

function append(map: Map<string, string[]>, key: string, value: string): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, [value]);
  else known.push(value);
}
