/** What a peek can look at, and the rows and marks that it shows. Pure. */

import type { PeekRequest, SeenElement } from '../gen/contract';
import { t } from '../texts/t';
import type { Vertex } from './job';

/** Rows and marks that a table holds; older ones scroll out. */
export const MAX_SHOWN = 500;

/** Where the rows of an edge are looked at. */
export interface PeekPlace {
  /** Id of the vertex whose drawer shows them. */
  readonly vertex: string;
  /** As of `PeekableEdge`. */
  readonly key: string;
}

export interface PeekableEdge {
  /** Stands for it in links: the id of an edge, or "into:" and the uid of the operator that one in a chain leads to. */
  readonly key: string;
  readonly label: string;
  readonly wanted: Pick<PeekRequest, 'edge' | 'operator' | 'late'>;
  /** Number of the subtasks that write to it. */
  readonly parallelism: number;
}

/**
 * Return the edges of a vertex: those that lead to it, those within its chain, those that leave it; and its operators that have
 * dropped late records.
 *
 * @param late records that were dropped, by the uid of the operator.
 */
export function peekableEdges(
  vertices: readonly Vertex[],
  vertexId: string,
  late: Readonly<Record<string, number>> = {},
): PeekableEdge[] {
  const byId = new Map(vertices.map((vertex) => [vertex.id, vertex]));
  const between = vertices.flatMap((target) =>
    target.inputs.flatMap(({ id, edge, side_output: tag }) => {
      const source = byId.get(id);
      if (edge === undefined || source === undefined) return [];
      const label = withTag(`${source.name} → ${target.name}`, tag);
      return [{ key: edge, label, wanted: { edge }, parallelism: source.parallelism, source: id, target: target.id }];
    }),
  );
  const vertex = byId.get(vertexId);
  const operators = vertex?.operators ?? [];
  const names = new Map(operators.map(({ uid, name }) => [uid, name]));
  const within = operators.flatMap(({ uid, name, input }) => {
    if (input === undefined || vertex === undefined) return [];
    const label = withTag(`${names.get(input.operator) ?? ''} → ${name}`, input.side_output);
    return [{ key: keyOfChained(uid), label, wanted: { operator: uid }, parallelism: vertex.parallelism }];
  });
  const plain = (edges: typeof between) =>
    edges.map(({ key, label, wanted, parallelism }) => ({ key, label, wanted, parallelism }));
  return [
    ...plain(between.filter(({ target }) => target === vertexId)),
    ...within,
    ...plain(between.filter(({ source, target }) => source === vertexId && target !== vertexId)),
    ...operators.flatMap(({ uid, name }) => {
      if (vertex === undefined || late[uid] === undefined) return [];
      const { parallelism } = vertex;
      return [
        {
          key: keyOfLate(uid),
          label: t('Late records dropped by {name}', { name }),
          wanted: { late: uid },
          parallelism,
        },
      ];
    }),
  ];
}

/** Stands in links for the edge that leads to an operator within its chain. */
export function keyOfChained(uid: string): string {
  return `into:${uid}`;
}

/** Stands in links for the late records that an operator has dropped. */
export function keyOfLate(uid: string): string {
  return `late:${uid}`;
}

/** ms by which a record that was dropped was late; null: unknown. */
export function latenessOf({ timestamp, watermark }: Pick<SeenElement, 'timestamp' | 'watermark'>): number | null {
  return typeof timestamp === 'number' && typeof watermark === 'number' ? watermark - timestamp : null;
}

function withTag(label: string, tag: string | undefined): string {
  return tag === undefined || tag === '' ? label : `${label} · ${tag}`;
}

export interface ShownElement extends SeenElement {
  /** Grows by one with each element of the table, also where the numbers of a leader whose clock is behind go back. */
  readonly id: number;
  /** Whether the row has come behind a watermark of its subtask that had passed its time. */
  readonly isLate: boolean;
}

/** Return the elements with those that have come since, the newest MAX_SHOWN. */
export function withNewer(shown: readonly ShownElement[], seen: readonly SeenElement[]): ShownElement[] {
  const last = shown.at(-1);
  const known = last?.number ?? 0;
  // those of another leader begin anew
  const isAnew = (seen.at(-1)?.number ?? known) < known;
  const watermarks = new Map<number, number>();
  for (const { kind, subtask, timestamp } of shown) {
    if (kind === 'watermark') watermarks.set(subtask, timeOf(timestamp));
  }
  const added = seen
    .filter(({ number }) => isAnew || number > known)
    .map((element, index) => {
      const { kind, subtask, timestamp } = element;
      if (kind === 'watermark') watermarks.set(subtask, timeOf(timestamp));
      const isLate =
        kind === 'row' && typeof timestamp === 'number' && timestamp <= (watermarks.get(subtask) ?? -Infinity);
      return { ...element, id: (last?.id ?? 0) + 1 + index, isLate };
    });
  return [...shown, ...added].slice(-MAX_SHOWN);
}

function timeOf(timestamp: SeenElement['timestamp']): number {
  return timestamp === 'max' ? Infinity : (timestamp ?? -Infinity);
}

/** Signs that nobody sees, or that turn the direction of what follows; joiners are parts of words and emoji. */
const INVISIBLE = /[\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Return a value on one line, as JSON: a text has quotes, so that none looks like a number, or like a mark. */
export function valueText(value: unknown): string {
  return JSON.stringify(value).replace(INVISIBLE, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
