/** The order of nodes: from the sources down. */

import type { PipelineDocument } from './document';

/** For each node, the nodes behind its outputs. */
export function targetsOf(document: PipelineDocument): ReadonlyMap<string, readonly string[]> {
  const targets = new Map<string, string[]>();
  for (const { from, to } of Object.values(document.edges)) {
    const known = targets.get(from[0]);
    if (known === undefined) targets.set(from[0], [to[0]]);
    else known.push(to[0]);
  }
  return targets;
}

/** All nodes that can be reached from one, itself included. */
export function below(document: PipelineDocument, id: string): ReadonlySet<string> {
  const targets = targetsOf(document);
  const found = new Set([id]);
  const ready = [id];
  for (let next = ready.pop(); next !== undefined; next = ready.pop()) {
    for (const target of targets.get(next) ?? []) {
      if (found.has(target)) continue;
      found.add(target);
      ready.push(target);
    }
  }
  return found;
}

/** The length of the longest way to each node; nodes in and below a cycle have none. */
export function ranks(document: PipelineDocument): ReadonlyMap<string, number> {
  const targets = targetsOf(document);
  const waiting = new Map(Object.keys(document.nodes).map((id) => [id, 0]));
  for (const { to } of Object.values(document.edges)) waiting.set(to[0], (waiting.get(to[0]) ?? 0) + 1);
  const ready = [...waiting].filter(([, count]) => count === 0).map(([id]) => id);
  const ranked = new Map(ready.map((id) => [id, 0]));
  const done = new Map<string, number>();
  for (let id = ready.pop(); id !== undefined; id = ready.pop()) {
    const rank = ranked.get(id) ?? 0;
    done.set(id, rank);
    for (const target of targets.get(id) ?? []) {
      ranked.set(target, Math.max(ranked.get(target) ?? 0, rank + 1));
      const left = (waiting.get(target) ?? 0) - 1;
      waiting.set(target, left);
      if (left === 0) ready.push(target);
    }
  }
  return done;
}

/** All node ids in topological order; what is in or below a cycle comes last. */
export function topologicalOrder(document: PipelineDocument): readonly string[] {
  const ranked = ranks(document);
  const rank = (id: string) => ranked.get(id) ?? Infinity;
  return Object.keys(document.nodes).sort((one, other) => {
    const difference = rank(one) === rank(other) ? 0 : rank(one) - rank(other);
    return difference !== 0 ? difference : one < other ? -1 : 1;
  });
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([key, item]) => [key, sorted(item)]),
  );
}

/** Whether two values are the same JSON, whatever the order of their keys. */
export function isSameValue(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
}

const NOT_SEMANTIC = new Set(['layout', 'description', 'samples', 'tests']);

/** Whether two documents make the same job: their layout, texts, samples and tests may differ. */
export function isSameJob(one: PipelineDocument, other: PipelineDocument): boolean {
  if (one === other) return true;
  const text = (document: PipelineDocument) =>
    JSON.stringify(sorted(Object.fromEntries(Object.entries(document).filter(([key]) => !NOT_SEMANTIC.has(key)))));
  return text(one) === text(other);
}

export function isSameDocument(one: PipelineDocument, other: PipelineDocument): boolean {
  return one === other || JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
}
