/** JSON merge patches (RFC 7396) between maps without null members: null removes, a map is patched, anything else replaces. */
import { isMap, type Json, type JsonMap } from './json.ts';

/** What turns `from` into `to`; null when they are equal. */
export function mergePatch(from: JsonMap, to: JsonMap): JsonMap | null {
  const patch: [string, Json][] = [];
  for (const key of Object.keys(from)) if (!Object.hasOwn(to, key)) patch.push([key, null]);
  for (const [key, after] of Object.entries(to)) {
    const before = Object.hasOwn(from, key) ? from[key] : undefined;
    if (isMap(before) && isMap(after)) {
      const inner = mergePatch(before, after);
      if (inner !== null) patch.push([key, inner]);
    } else if (!equal(before, after)) {
      patch.push([key, after]);
    }
  }
  // A list of entries keeps `__proto__` an ordinary key.
  return patch.length === 0 ? null : Object.fromEntries(patch);
}

export function applyPatch(target: JsonMap, patch: JsonMap): JsonMap {
  const merged = new Map(Object.entries(target));
  for (const [key, change] of Object.entries(patch)) {
    const before = merged.get(key);
    if (change === null) merged.delete(key);
    else merged.set(key, isMap(change) ? applyPatch(isMap(before) ? before : {}, change) : change);
  }
  return Object.fromEntries(merged);
}

function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (!Array.isArray(a) || !Array.isArray(b)) return JSON.stringify(a) === JSON.stringify(b);
  return a.length === b.length && a.every((item, index) => equal(item, b[index]));
}
