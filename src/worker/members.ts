/** A root whose members are looked up one by one and which is put together as a whole only when something asks for it. */
import type { Json, JsonMap } from '../../machines/json.ts';
import { Facade } from '../../machines/playbook/template/facade.ts';

export class Members extends Facade {
  readonly #member: (key: string) => unknown;
  readonly #all: () => JsonMap;

  constructor(member: (key: string) => unknown, all: () => JsonMap) {
    super();
    this.#member = member;
    this.#all = all;
  }

  member(key: string | number): unknown {
    return this.#member(String(key));
  }

  plain(): JsonMap {
    return this.#all();
  }
}

/** The JSON a value of a scope stands for. Throws NeedPayload where a stored value is not here yet. */
export function plainOf(value: unknown): Json {
  const plain = value instanceof Facade ? value.plain() : value;
  // Scopes hold JSON, facades of JSON, and undefined.
  return (plain ?? null) as Json;
}
