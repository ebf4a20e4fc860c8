/**
 * How much work a worker takes. A slot is one command being worked on; a command that only waits for a child gives its
 * slot back. While commands turn out to be very short, some more are fetched ahead, so that one call serves many of
 * them; one slow command ends that at once, because work fetched ahead is work other workers cannot have.
 */

/** A command is short below this. Milliseconds. */
const SHORT_MS = 25;
/** That many short ones in a row, and fetching ahead begins. */
const STREAK = 16;
const AHEAD = 64;

export class Slots {
  readonly #concurrency: number;
  #busy = 0;
  #streak = 0;

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
  }

  get free(): number {
    return this.#concurrency - this.#busy;
  }

  take(): void {
    this.#busy += 1;
  }

  giveBack(): void {
    this.#busy -= 1;
  }

  /** A command ended after that many milliseconds. */
  ended(durationMs: number): void {
    this.#streak = durationMs < SHORT_MS ? this.#streak + 1 : 0;
  }

  /** A running command has become a slow one. */
  slowed(): void {
    this.#streak = 0;
  }

  /** Commands to have beyond the slots. */
  get ahead(): number {
    return this.#streak >= STREAK ? AHEAD : 0;
  }
}
