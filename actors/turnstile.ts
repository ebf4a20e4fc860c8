/**
 * One at a time for each key, in order of arrival; different keys do not wait for each other. For work that first reads and
 * then writes: two repeats of one message would both find that it was never said.
 */
export class Turnstile {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Settles as `work` does. A failure lets the next one through. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const mine = before === undefined ? work() : before.then(work, work);
    this.#last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(key) === mine) this.#last.delete(key);
    }
  }

  /** Keys somebody is passing. */
  get size(): number {
    return this.#last.size;
  }
}
