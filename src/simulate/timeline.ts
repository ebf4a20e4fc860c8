/**
 * Virtual time. Everything that waits in a simulation waits here; when nothing is left to do at an instant, the clock
 * jumps to the next wait. Waits that end at the same instant end in an order drawn from the seed, one after the other,
 * so that a seed stands for one order of parallel completions.
 *
 * The engine and the worker are asynchronous code that knows nothing of this. They hand over by microtasks and, in two
 * places (the commit loop, long pipelines), by one turn of the event loop; `settle` waits until several turns have passed
 * in which nobody did anything, which is when all of them wait for time.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from '../../actors/ports.ts';
import type { WorkerTime } from '../worker/time.ts';

interface Wait {
  readonly at: number;
  /** Orders waits of one instant. */
  readonly draw: number;
  readonly seq: number;
  readonly end: () => void;
}

/** A question to somebody outside the simulation, in the order in which they were asked. */
interface Question {
  isAnswered: boolean;
  readonly tell: () => void;
}

/** Turns of the event loop without a sign of life; the longest hand-over without one takes three. */
const QUIET_TURNS = 4;

export class Timeline implements Clock, WorkerTime {
  readonly startedAt: number;
  #now: number;
  #seq = 0;
  #signs = 0;
  readonly #asked: Question[] = [];
  #isLeft = false;
  /** A binary heap: no wait ends later than the two at twice its place. */
  readonly #waits: Wait[] = [];
  readonly #gone = new Set<Wait>();
  readonly #chance: () => number;

  /** `startedAt` in milliseconds since the epoch. */
  constructor(startedAt: number, chance: () => number) {
    this.startedAt = startedAt;
    this.#now = startedAt;
    this.#chance = chance;
  }

  now(): number {
    return this.#now;
  }

  get elapsedMs(): number {
    return this.#now - this.startedAt;
  }

  /** Somebody did something: it is not quiet yet. */
  stir(): void {
    this.#signs += 1;
  }

  after(ms: number, callback: () => void): () => void {
    this.stir();
    this.#seq += 1;
    const wait = { at: this.#now + Math.max(0, ms), draw: this.#chance(), seq: this.#seq, end: callback };
    this.#push(wait);
    return () => void this.#gone.add(wait);
  }

  pause(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const onAbort = () => {
        cancel();
        reject(signal.reason);
      };
      const cancel = this.after(ms, () => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      });
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  async breathe(): Promise<void> {
    this.stir();
    await turn();
    this.stir();
  }

  /**
   * Real time passes while this is asked; virtual time does not. How long it takes must not order anything: answers are
   * told one after the other, in the order of the questions, when everybody else waits.
   */
  outside<T>(question: Promise<T>): Promise<T> {
    if (this.#isLeft) return question;
    return new Promise((resolve, reject) => {
      const asked: Question = { isAnswered: false, tell: () => void question.then(resolve, reject) };
      const answered = () => {
        asked.isAnswered = true;
      };
      question.then(answered, answered);
      this.#asked.push(asked);
    });
  }

  /** Nobody settles any more: what is asked is answered when it is. */
  leave(): void {
    this.#isLeft = true;
    for (const { tell } of this.#asked.splice(0)) tell();
  }

  /** Resolves when everybody waits for time. `isOver` may give up before. */
  async settle(isOver: () => boolean): Promise<void> {
    for (;;) {
      await this.#quiet(isOver);
      const [first] = this.#asked;
      if (first === undefined) return;
      while (!first.isAnswered && !isOver()) await turn();
      if (isOver()) return;
      this.#asked.shift();
      first.tell();
    }
  }

  async #quiet(isOver: () => boolean): Promise<void> {
    let seen = this.#signs;
    for (let quiet = 0; quiet < QUIET_TURNS && !isOver(); ) {
      await turn();
      quiet = seen === this.#signs ? quiet + 1 : 0;
      seen = this.#signs;
    }
  }

  /** When the next wait ends; null: nobody waits. */
  nextAt(): number | null {
    this.#forget();
    return this.#waits[0]?.at ?? null;
  }

  /** Jumps to an instant that is not before now. */
  jump(at: number): void {
    if (at < this.#now) throw new RangeError('time does not run backwards');
    this.#now = at;
  }

  /** Ends the next wait, at its instant. */
  step(): void {
    this.#forget();
    const wait = this.#pop();
    if (wait === null) return;
    this.jump(wait.at);
    this.stir();
    wait.end();
  }

  #forget(): void {
    for (let first = this.#waits[0]; first !== undefined && this.#gone.has(first); first = this.#waits[0]) {
      this.#gone.delete(first);
      this.#pop();
    }
  }

  #push(wait: Wait): void {
    this.#waits.push(wait);
    for (let place = this.#waits.length - 1; place > 0; ) {
      const above = (place - 1) >> 1;
      if (!this.#isBefore(place, above)) return;
      this.#swap(place, above);
      place = above;
    }
  }

  #pop(): Wait | null {
    const [first] = this.#waits;
    const last = this.#waits.pop();
    if (first === undefined || last === undefined) return null;
    if (this.#waits.length === 0) return first;
    this.#waits[0] = last;
    for (let place = 0; ; ) {
      const [left, right] = [2 * place + 1, 2 * place + 2];
      const least = this.#isBefore(right, left) ? right : left;
      if (!this.#isBefore(least, place)) return first;
      this.#swap(place, least);
      place = least;
    }
  }

  #isBefore(a: number, b: number): boolean {
    const [one, other] = [this.#waits[a], this.#waits[b]];
    if (one === undefined || other === undefined) return one !== undefined;
    return one.at - other.at < 0 || (one.at === other.at && (one.draw - other.draw || one.seq - other.seq) < 0);
  }

  #swap(a: number, b: number): void {
    const [one, other] = [this.#waits[a], this.#waits[b]];
    if (one === undefined || other === undefined) return;
    this.#waits[a] = other;
    this.#waits[b] = one;
  }
}
