/** JSON Patch (RFC 6902): how the server describes quick fixes. Applied whole or not at all; nothing is changed in place. */

import type { PatchStep } from './catalog';
import type { Json } from './document';

export class PatchError extends Error {}

type Tree = Json | undefined;

export function applyPatch<T>(document: T, patch: readonly PatchStep[]): T {
  return patch.reduce<Tree>(step, document as Tree) as T;
}

function step(tree: Tree, { op, path, from, value }: PatchStep): Tree {
  switch (op) {
    case 'add':
    case 'replace':
      return edited(tree, keysOf(path), value, op === 'add');
    case 'remove':
      return edited(tree, keysOf(path), undefined, false);
    case 'move':
    case 'copy': {
      const taken = valueAt(tree, keysOf(from ?? ''));
      const rest = op === 'move' ? edited(tree, keysOf(from ?? ''), undefined, false) : tree;
      return edited(rest, keysOf(path), taken, true);
    }
    case 'test':
      if (JSON.stringify(valueAt(tree, keysOf(path))) !== JSON.stringify(value))
        throw new PatchError(`${path} differs`);
      return tree;
    default:
      throw new PatchError(`there is no operation ${op}`);
  }
}

/** The parts of a JSON pointer. */
export function keysOf(pointer: string): readonly string[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
}

export function valueAt(tree: Tree, keys: readonly string[]): Tree {
  return keys.reduce<Tree>((value, key) => {
    if (Array.isArray(value)) return (value as readonly Json[])[Number(key)];
    return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  }, tree);
}

/** The tree with another value at a place; undefined removes it. */
function edited(tree: Tree, keys: readonly string[], value: Tree, isNew: boolean): Tree {
  const [key, ...rest] = keys;
  if (key === undefined) return value;
  if (Array.isArray(tree)) {
    const list = [...(tree as readonly Json[])];
    const index = key === '-' ? list.length : Number(key);
    if (!Number.isInteger(index) || index < 0 || index > list.length) throw new PatchError(`there is no item ${key}`);
    if (rest.length > 0) list[index] = edited(list[index], rest, value, isNew) as Json;
    else if (value === undefined) list.splice(index, 1);
    else list.splice(index, isNew ? 0 : 1, value);
    return list;
  }
  if (!isObject(tree)) throw new PatchError(`there is nothing at ${key}`);
  if (rest.length === 0 && value === undefined) {
    return Object.fromEntries(Object.entries(tree).filter(([name]) => name !== key));
  }
  const inner = Object.hasOwn(tree, key) ? tree[key] : undefined;
  if (rest.length > 0 && inner === undefined) throw new PatchError(`there is no ${key}`);
  return { ...tree, [key]: rest.length === 0 ? (value as Json) : (edited(inner, rest, value, isNew) as Json) };
}

function isObject(value: Tree): value is Readonly<Record<string, Json>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
