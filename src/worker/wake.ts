/** A bell between the parts of a worker: a ring that nobody waited for is heard by the next who waits. */
export class Wake {
  #rung = false;
  #waiter: (() => void) | null = null;

  ring(): void {
    this.#rung = true;
    this.#waiter?.();
  }

  /** Resolves at the next ring, at once after a missed one, or after `ms`. One waiter at a time. */
  async heard(ms: number = Number.POSITIVE_INFINITY): Promise<void> {
    if (!this.#rung && ms > 0) {
      await new Promise<void>((resolve) => {
        const timer = Number.isFinite(ms) ? setTimeout(resolve, ms) : undefined;
        this.#waiter = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#waiter = null;
    this.#rung = false;
  }
}
