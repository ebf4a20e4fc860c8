/**
 * Variables that a command writes by `set` (language 6): where an assignment goes, how a dotted path is put into a map
 * without touching its siblings, and which `ctx` paths travel home with the report.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';

/** A copy of `target` with `value` at `path`; maps on the way are kept or made, anything else there is replaced. */
export function withValueAt(target: Json | undefined, path: readonly string[], value: Json): Json {
  const [name, ...rest] = path;
  if (name === undefined) return value;
  const members = isMap(target) ? target : {};
  const inner = Object.hasOwn(members, name) ? members[name] : undefined;
  return Object.fromEntries([
    ...Object.entries(members).filter(([key]) => key !== name),
    [name, withValueAt(inner, rest, value)],
  ]);
}

/** Writes by variable path (`rate`, `cfg.limit`), in the order in which they must be applied again. */
export class Writes {
  readonly #byPath = new Map<string, Json>();

  write(path: readonly string[], value: Json): void {
    const owner = this.#ownerOf(path);
    if (owner !== null) {
      const depth = owner.split('.').length;
      this.#byPath.set(owner, withValueAt(this.#byPath.get(owner), path.slice(depth), value));
      return;
    }
    const key = path.join('.');
    for (const written of [...this.#byPath.keys()]) if (written.startsWith(`${key}.`)) this.#byPath.delete(written);
    this.#byPath.set(key, value);
  }

  get isEmpty(): boolean {
    return this.#byPath.size === 0;
  }

  toJson(): JsonMap {
    return Object.fromEntries(this.#byPath);
  }

  /** The written path that this one lies at or below. */
  #ownerOf(path: readonly string[]): string | null {
    for (let length = path.length; length > 0; length--) {
      const key = path.slice(0, length).join('.');
      if (this.#byPath.has(key)) return key;
    }
    return null;
  }
}
