/**
 * `keychain` in templates (language 12.4.4). An entry that is not available is no map without fields: whoever needs
 * one of its fields fails, and `default()` cannot hide that, because the look-up itself throws.
 */
import type { JsonMap } from '../json.ts';
import { Facade } from '../playbook/template/facade.ts';

export type EntryValue =
  | { readonly available: true; readonly data: JsonMap }
  | { readonly available: false; readonly reason: string };

/** What the look-up throws, made by the host so that it can tell its kind. */
export type Refusal = (sentence: string) => Error;

export class KeychainRoot extends Facade {
  readonly #entries: ReadonlyMap<string, EntryValue>;
  readonly #refuse: Refusal;

  constructor(entries: ReadonlyMap<string, EntryValue>, refuse: Refusal) {
    super();
    this.#entries = entries;
    this.#refuse = refuse;
  }

  member(key: string | number): JsonMap | Facade {
    const name = String(key);
    const value = this.#entries.get(name) ?? { available: false, reason: 'not_found' };
    return value.available ? value.data : new MissingEntry(this.#refuse(unavailable(name, value.reason)));
  }

  /** The entries that are here; one that is not shows as an empty map. */
  plain(): JsonMap {
    return Object.fromEntries([...this.#entries].map(([name, value]) => [name, value.available ? value.data : {}]));
  }
}

export function unavailable(name: string, reason: string): string {
  return `keychain entry '${name}' is not available (${reason})`;
}

class MissingEntry extends Facade {
  readonly #refusal: Error;

  constructor(refusal: Error) {
    super();
    this.#refusal = refusal;
  }

  member(): never {
    throw this.#refusal;
  }

  plain(): never {
    throw this.#refusal;
  }
}
