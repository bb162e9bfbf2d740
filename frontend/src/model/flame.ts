/** Flame graphs from samples of stacks. Pure. */

import type { VertexStacks } from '../gen/contract';

/** Which samples count: all, those on the CPU, those off it. */
export type FlameKind = 'full' | 'on_cpu' | 'off_cpu';

export interface Flame {
  readonly name: string;
  /** Samples in which it was on the stack here. */
  readonly value: number;
  /** Samples in which it was innermost. */
  readonly self: number;
  /** The most frequent first. */
  readonly children: readonly Flame[];
}

export interface FlameBox {
  /** Its place in the tree. */
  readonly path: readonly number[];
  readonly flame: Flame;
  readonly depth: number;
  /** Shares of the whole width. */
  readonly left: number;
  readonly width: number;
}

export interface Hot {
  readonly name: string;
  readonly self: number;
  /** Samples in which it was anywhere on the stack. */
  readonly total: number;
}

/** Narrower boxes cannot be seen. */
const LEAST_WIDTH = 0.002;

interface Growing {
  readonly name: string;
  value: number;
  self: number;
  readonly children: Map<string, Growing>;
}

const growing = (name: string): Growing => ({ name, value: 0, self: 0, children: new Map() });

function valueOf(kind: FlameKind, onCpu: number, offCpu: number): number {
  return { full: onCpu + offCpu, on_cpu: onCpu, off_cpu: offCpu }[kind];
}

/** The tree of what a vertex's subtasks did; null as subtask: of all of them. */
export function flameOf(stacks: VertexStacks, kind: FlameKind, subtask: number | null): Flame {
  const root = growing('all');
  for (const [index, frames, onCpu, offCpu] of stacks.stacks) {
    const value = valueOf(kind, onCpu, offCpu);
    if (value === 0 || (subtask !== null && index !== subtask)) continue;
    let node = root;
    node.value += value;
    for (const frame of frames) {
      const name = stacks.frames[frame] ?? '?';
      let child = node.children.get(name);
      if (child === undefined) node.children.set(name, (child = growing(name)));
      child.value += value;
      node = child;
    }
    node.self += value;
  }
  return finished(root);
}

function finished({ name, value, self, children }: Growing): Flame {
  const below = [...children.values()].map(finished);
  return { name, value, self, children: below.toSorted((a, b) => b.value - a.value || (a.name < b.name ? -1 : 1)) };
}

/** The node at a place; the nearest one above it if the tree has changed. */
export function flameAt(root: Flame, path: readonly number[]): Flame {
  const [first, ...rest] = path;
  const child = first === undefined ? undefined : root.children[first];
  return child === undefined ? root : flameAt(child, rest);
}

/** The boxes of a tree; those from the root to `zoomed` have the whole width, and so have the parts of that one. */
export function boxesOf(root: Flame, zoomed: readonly number[]): readonly FlameBox[] {
  const boxes: FlameBox[] = [];
  const place = (flame: Flame, path: readonly number[], left: number, width: number): void => {
    if (width < LEAST_WIDTH) return;
    boxes.push({ path, flame, depth: path.length, left, width });
    const next = zoomed[path.length];
    const isAbove = next !== undefined && path.every((index, depth) => zoomed[depth] === index);
    const chosen = isAbove ? flame.children[next] : undefined;
    if (chosen !== undefined) {
      place(chosen, [...path, next ?? 0], left, width);
      return;
    }
    let from = left;
    flame.children.forEach((child, index) => {
      const share = flame.value === 0 ? 0 : (width * child.value) / flame.value;
      place(child, [...path, index], from, share);
      from += share;
    });
  };
  place(root, [], 0, 1);
  return boxes;
}

/** The functions that were innermost most often, the hottest first. */
export function hottest(root: Flame, count: number): readonly Hot[] {
  const found = new Map<string, { self: number; total: number }>();
  const visit = (flame: Flame, above: ReadonlySet<string>): void => {
    const known = found.get(flame.name) ?? { self: 0, total: 0 };
    // recursion counts once
    const total = known.total + (above.has(flame.name) ? 0 : flame.value);
    found.set(flame.name, { self: known.self + flame.self, total });
    const inside = new Set([...above, flame.name]);
    flame.children.forEach((child) => visit(child, inside));
  };
  root.children.forEach((child) => visit(child, new Set()));
  return [...found]
    .map(([name, { self, total }]) => ({ name, self, total }))
    .filter(({ self }) => self > 0)
    .toSorted((a, b) => b.self - a.self || (a.name < b.name ? -1 : 1))
    .slice(0, count);
}

/** Whether a frame is the engine's own. */
export function isOfEngine(name: string): boolean {
  return name.includes('(runtime/') || name.includes('(backend/');
}
