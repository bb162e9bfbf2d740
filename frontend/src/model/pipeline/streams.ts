/** What the page says of streams: their facts in words, and the columns before a node. */

import { t } from '../../texts/t';
import type { Column, Facts, Validation } from './catalog';
import type { PipelineDocument } from './document';

/** Facts in words, the same in every panel. */
export function factWords(facts: Facts): readonly string[] {
  const words = [
    facts.changelog === 'retract' ? t('changelog: rows are taken back') : t('new rows only'),
    facts.event_time
      ? facts.watermarks
        ? t('event time, watermarks')
        : t('event time, no watermarks')
      : t('no event time'),
    facts.bounded ? 'ends' : t('does not end'),
  ];
  return facts.unique_key === null
    ? words
    : [...words, t('one row for each {uniqueKey}', { uniqueKey: facts.unique_key.join(', ') })];
}

/** The columns of everything that enters a node, each name once; null: nothing enters it, or nothing is known. */
export function factsBefore(
  document: PipelineDocument,
  validation: Validation,
  node: string,
): readonly Column[] | null {
  const edges = Object.entries(document.edges)
    .filter(([, { to }]) => to[0] === node)
    .sort(([, one], [, other]) => (one.to[1] < other.to[1] ? -1 : one.to[1] > other.to[1] ? 1 : 0));
  const found = new Map<string, Column>();
  for (const [, { from }] of edges) {
    const columns = validation.nodes[from[0]]?.outputs[from[1]]?.columns;
    if (columns === null || columns === undefined) return null;
    for (const column of columns) if (!found.has(column.name)) found.set(column.name, column);
  }
  return edges.length === 0 ? null : [...found.values()];
}
