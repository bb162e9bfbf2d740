/** Bounds of the parallelisms of a job, as its page shows and edits them. */

import { plural, t } from '../texts/t';
import type { Vertex } from './job';

export interface Bounds {
  readonly lower: number;
  readonly upper: number;
}

/** Flink's limit of a job's parallelism. */
export const MAX_PARALLELISM = 32768;

/** Why a typed number is no parallelism up to a vertex's maximum; null: it is. */
export function parallelismProblem(typed: number | string, most: number): string | null {
  const number = Number(typed);
  // Number('') is 0
  const isParallelism = Number.isInteger(number) && number >= 1 && number <= most;
  return isParallelism ? null : t('A whole number, 1 to {most}', { most });
}

/** The typed parallelisms that are some, and differ from the vertices' own. */
export function changedParallelisms(
  vertices: readonly Vertex[],
  typed: Readonly<Record<string, number | string>>,
): Record<string, number> {
  const changed: Record<string, number> = {};
  for (const { id, parallelism, max_parallelism: most } of vertices) {
    const wanted = typed[id] ?? parallelism;
    if (Number(wanted) !== parallelism && parallelismProblem(wanted, most) === null) changed[id] = Number(wanted);
  }
  return changed;
}

/** Bounds that were typed, by vertex id; '' and others that are no numbers are kept until they are. */
export type Draft = Readonly<Record<string, Readonly<Record<keyof Bounds, number | string>>>>;

export function boundsOf({ lower_bound: lower, upper_bound: upper, parallelism }: Vertex): Bounds {
  return { lower: lower ?? parallelism, upper: upper ?? parallelism };
}

export function edited(draft: Draft, vertex: Vertex, bound: keyof Bounds, value: number | string): Draft {
  return { ...draft, [vertex.id]: { ...boundsOf(vertex), ...draft[vertex.id], [bound]: value } };
}

/** The bounds that differ from the vertices' own. */
export function changedBounds(vertices: readonly Vertex[], draft: Draft): Record<string, Bounds> {
  const changed: Record<string, Bounds> = {};
  for (const vertex of vertices) {
    const typed = draft[vertex.id];
    if (typed === undefined) continue;
    const bounds = { lower: Number(typed.lower), upper: Number(typed.upper) };
    const own = boundsOf(vertex);
    if (bounds.lower !== own.lower || bounds.upper !== own.upper) changed[vertex.id] = bounds;
  }
  return changed;
}

/** Why changed bounds cannot be asked for; null: they can. */
export function boundsProblem(vertices: readonly Vertex[], changed: Readonly<Record<string, Bounds>>): string | null {
  for (const { id, name, max_parallelism: most } of vertices) {
    const bounds = changed[id];
    if (bounds === undefined) continue;
    const { lower, upper } = bounds;
    if (parallelismProblem(lower, most) !== null || parallelismProblem(upper, most) !== null)
      return t('{name}: bounds are whole numbers from 1 to {most}.', { name, most });
    if (lower > upper)
      return t('{name}: the lower bound {lower} is above the upper bound {upper}.', { name, lower, upper });
  }
  return null;
}

/** Number of slots that a job needs: in each slot sharing group those of its widest vertex. */
export function slotsNeeded(vertices: readonly Vertex[], parallelisms: Readonly<Record<string, number>>): number {
  const groups = new Map<string, number>();
  for (const { id, slot_sharing_group: group, parallelism } of vertices) {
    groups.set(group, Math.max(groups.get(group) ?? 0, parallelisms[id] ?? parallelism));
  }
  return [...groups.values()].reduce((sum, slots) => sum + slots, 0);
}

/** The slots that a rescaling needs, and those that the job can have, in words. */
export function slotsText(needed: number, held: number, free: number): string {
  const slots = plural(needed, '1 slot', '{count} slots');
  const has = t('the job has {held}, and {free}', { held, free: plural(free, '1 is free', '{count} are free') });
  const lacking = needed - held - free;
  if (lacking <= 0) return t('Needs {slots}: {has}.', { slots, has });
  const missing = plural(lacking, '1 is missing', '{count} are missing');
  return t('Needs {slots}: {has}, so {missing}.', { slots, has, missing });
}
