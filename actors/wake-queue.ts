/**
 * Moments at which waits end: a next try falls due, a parked command's time is over. Kept in memory with one timer, soonest
 * first, so that what this process knows of happens at its time; what it does not know of is found by sweeps, because the
 * moment stands in the row as well. Entries are hints: whoever is woken looks at the row.
 */
import type { Clock, ParkedCommand } from './ports.ts';

export interface WakeQueueParts {
  readonly clock: Clock;
  /** In the order of their moments. Must not throw. */
  onDue(waits: readonly ParkedCommand[]): void;
}

interface Entry {
  readonly at: number;
  readonly wait: ParkedCommand;
}

/** What lies beyond is found by a sweep; memory is bounded. */
const ENTRIES_MAX = 100_000;
/** Longest pause of a timer. The clock that decides is the database's, so a long wait is looked at again on the way. */
const PAUSE_MAX_MS = 3_600_000;

export class WakeQueue {
  readonly #parts: WakeQueueParts;
  /** A binary heap: each entry is due no later than the two at twice its place. */
  readonly #heap: Entry[] = [];
  /** The moment that counts, by command: one that is told again is not kept twice. */
  readonly #moments = new Map<number, number>();
  #timer: ReturnType<typeof setTimeout> | null = null;
  #isStopped = false;

  constructor(parts: WakeQueueParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#heap.length;
  }

  /** `at`: milliseconds since the epoch, by the database's clock. */
  add(at: number, wait: ParkedCommand): void {
    if (this.#isStopped || this.#heap.length >= ENTRIES_MAX || this.#moments.get(wait.commandId) === at) return;
    this.#moments.set(wait.commandId, at);
    this.#heap.push({ at, wait });
    this.#rise(this.#heap.length - 1);
    if (this.#heap[0]?.wait === wait) this.#plan();
  }

  stop(): void {
    this.#isStopped = true;
    this.#heap.length = 0;
    this.#moments.clear();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  /** Wakes what is due now. The timer calls it; a test whose clock jumps may as well. */
  look(): void {
    const now = this.#parts.clock.now();
    const due: ParkedCommand[] = [];
    for (let first = this.#heap[0]; first !== undefined && first.at <= now; first = this.#heap[0]) {
      this.#removeFirst();
      if (this.#moments.get(first.wait.commandId) !== first.at) continue;
      this.#moments.delete(first.wait.commandId);
      due.push(first.wait);
    }
    this.#plan();
    if (due.length > 0) this.#parts.onDue(due);
  }

  #plan(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const first = this.#heap[0];
    if (first === undefined || this.#isStopped) return;
    const pauseMs = Math.min(PAUSE_MAX_MS, Math.max(1, Math.ceil(first.at - this.#parts.clock.now())));
    this.#timer = setTimeout(() => this.look(), pauseMs);
    this.#timer.unref?.();
  }

  #removeFirst(): void {
    const last = this.#heap.pop();
    if (last === undefined || this.#heap.length === 0) return;
    this.#heap[0] = last;
    this.#sink(0);
  }

  #rise(start: number): void {
    for (let place = start; place > 0; ) {
      const above = (place - 1) >> 1;
      if (!this.#isBefore(place, above)) return;
      this.#swap(place, above);
      place = above;
    }
  }

  #sink(start: number): void {
    for (let place = start; ; ) {
      const [left, right] = [2 * place + 1, 2 * place + 2];
      const least = this.#isBefore(right, left) ? right : left;
      if (!this.#isBefore(least, place)) return;
      this.#swap(place, least);
      place = least;
    }
  }

  #isBefore(a: number, b: number): boolean {
    const [left, right] = [this.#heap[a], this.#heap[b]];
    return left !== undefined && (right === undefined || left.at < right.at);
  }

  #swap(a: number, b: number): void {
    const [left, right] = [this.#heap[a], this.#heap[b]];
    if (left === undefined || right === undefined) return;
    this.#heap[a] = right;
    this.#heap[b] = left;
  }
}
