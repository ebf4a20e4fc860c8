/** Keeps what was used last, within a number and a total size. Reading counts as use. */
export class Recent<Key, Value> {
  readonly #entries = new Map<Key, { readonly value: Value; readonly size: number }>();
  readonly #countMax: number;
  readonly #sizeMax: number;
  #size = 0;

  constructor(limits: { readonly countMax: number; readonly sizeMax: number }) {
    this.#countMax = limits.countMax;
    this.#sizeMax = limits.sizeMax;
  }

  get(key: Key): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    // A map keeps the order of insertion, so the front is always what was used longest ago.
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** An entry larger than the whole room is not kept. */
  put(key: Key, value: Value, size: number): void {
    this.delete(key);
    if (size > this.#sizeMax) return;
    this.#entries.set(key, { value, size });
    this.#size += size;
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#countMax && this.#size <= this.#sizeMax) return;
      this.delete(oldest);
    }
  }

  delete(key: Key): void {
    this.#size -= this.#entries.get(key)?.size ?? 0;
    this.#entries.delete(key);
  }

  get count(): number {
    return this.#entries.size;
  }
}
