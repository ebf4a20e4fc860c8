/**
 * Step values as templates see them (language 10): a map answers `.data` and `.result` although it has no such key, and
 * a value that is stored apart looks whole. What the summary does not hold is not invented: reading it throws
 * `NeedPayload`, the caller fetches the payload and renders again.
 */
import { isMap, type Json, type JsonMap } from '../json.ts';
import { Facade } from './template/facade.ts';

/** A template needs the payload behind this reference. Not a failure: fetch it and render once more. */
export class NeedPayload extends Error {
  override readonly name = 'NeedPayload';
  readonly ref: string;
  constructor(ref: string) {
    super(`the payload of ${ref} is needed`);
    this.ref = ref;
  }
}

/** The payload behind this reference is gone (language 10.4). Nothing is put in its place. */
export class MissingPayload extends Error {
  override readonly name = 'MissingPayload';
  readonly ref: string;
  constructor(ref: string) {
    super(`Result not found: ${ref}`);
    this.ref = ref;
  }
}

/** Payloads fetched so far; undefined where one was not fetched yet. */
export type Payloads = (ref: string) => Json | undefined;

/** The value of a step, or the raw data of a task, with accessors. `ref` names its payload when `value` is a summary. */
export function stepValue(value: Json, ref: string | null, payloads: Payloads): Json | Facade {
  if (ref !== null) return new StoredValue(ref, isMap(value) ? value : {}, payloads);
  return value === null ? null : new InlineValue(value);
}

/** A member of a map, own keys only: `__proto__` and inherited names are never found. */
export function ownMember(value: JsonMap, key: string | number): Json | undefined {
  return Object.hasOwn(value, key) ? value[String(key)] : undefined;
}

class InlineValue extends Facade {
  readonly #value: Json;

  constructor(value: Json) {
    super();
    this.#value = value;
  }

  member(key: string | number): unknown {
    return memberOf(this.#value, key, true);
  }

  plain(): Json {
    return this.#value;
  }
}

/** A map inside a step value, of which only `.result` yields the map itself; or a list that may hold such maps. */
class NestedValue extends Facade {
  readonly #value: JsonMap | readonly Json[];

  constructor(value: JsonMap | readonly Json[]) {
    super();
    this.#value = value;
  }

  member(key: string | number): unknown {
    return memberOf(this.#value, key, false);
  }

  plain(): Json {
    return this.#value;
  }
}

class StoredValue extends Facade {
  readonly #ref: string;
  readonly #summary: JsonMap;
  readonly #payloads: Payloads;

  constructor(ref: string, summary: JsonMap, payloads: Payloads) {
    super();
    this.#ref = ref;
    this.#summary = summary;
    this.#payloads = payloads;
  }

  member(key: string | number): unknown {
    const payload = this.#payloads(this.#ref);
    const summarised = ownMember(this.#summary, key);
    if (payload === undefined) {
      if (summarised === undefined) throw new NeedPayload(this.#ref);
      return nested(summarised);
    }
    if (isMap(payload) && Object.hasOwn(payload, key)) return nested(payload[String(key)]);
    return summarised === undefined ? memberOf(payload, key, true) : nested(summarised);
  }

  plain(): Json {
    const payload = this.#payloads(this.#ref);
    if (payload === undefined) throw new NeedPayload(this.#ref);
    return payload;
  }
}

function memberOf(value: Json, key: string | number, outermost: boolean): unknown {
  if (isMap(value)) {
    const own = ownMember(value, key);
    if (own !== undefined) return nested(own);
    return key === 'result' || (outermost && key === 'data') ? nested(value) : undefined;
  }
  if (outermost && (key === 'data' || key === 'result')) return value;
  return isIndexable(value) && typeof key === 'number' ? nested(value.at(key)) : undefined;
}

function nested(value: Json | undefined): unknown {
  return isMap(value) || Array.isArray(value) ? new NestedValue(value) : value;
}

function isIndexable(value: Json): value is string | readonly Json[] {
  return typeof value === 'string' || Array.isArray(value);
}
