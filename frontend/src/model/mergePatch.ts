/** JSON merge patch, RFC 7386: objects merge, null removes, everything else (arrays too) replaces. Never mutates. */

type Json = Record<string, unknown>;

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The target with the patch applied; parts that the patch does not name keep their identity. */
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result: Json = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    // a key named like this would set the prototype, not a property
    if (key === '__proto__') continue;
    if (value === null) {
      // eslint-disable-next-line @typescript-eslint/no-dynamic-delete -- removal is what null means here
      delete result[key];
    } else {
      result[key] = applyMergePatch(result[key], value);
    }
  }
  return result;
}
