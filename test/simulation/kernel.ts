/**
 * Time and order of a simulated world: one heap of (virtual time, sequence, callback). A callback runs, every microtask it
 * caused runs, then the next one; so the heap alone decides what happens in which order, and a seed happens once.
 *
 * A process is a `Life`. What belongs to a dead one never runs: promises it waits for never resolve, which is what a kill
 * looks like from the inside, at any await. What belongs to a paused one runs after the pause.
 */
export interface Life {
  readonly name: string;
  isAlive: boolean;
  pausedUntil: number;
  /** What this process believes of the database's clock, beside the truth. Milliseconds. */
  skewMs: number;
}

interface Entry {
  at: number;
  readonly sequence: number;
  readonly life: Life | null;
  readonly label: string;
  readonly run: () => void;
  /** Its time came in a pause. */
  isHeldUp: boolean;
  isCancelled: boolean;
}

/** The database's time at the begin of every world. */
export const EPOCH = Date.UTC(2026, 10, 20, 10, 15);

const TRACE = 200;
/** Steps that are put into the runtime's queue at once. */
const ROUND = 256;
const queueStep = globalThis.setImmediate;

export class Kernel {
  /** Virtual milliseconds since the begin. */
  now = 0;
  events = 0;
  /** Whose code runs. */
  current: Life | null = null;
  /** Called when something that belongs to a paused process had to wait. */
  onHeldUp: (life: Life) => void = () => {};
  readonly #heap: Entry[] = [];
  readonly #trace: string[] = [];
  #sequence = 0;
  #hash = 0x811c9dc5;
  #failure: unknown = null;

  life(name: string): Life {
    return { name, isAlive: true, pausedUntil: 0, skewMs: 0 };
  }

  /** Runs the callback `ms` from now, unless the process is dead by then. */
  after(ms: number, life: Life | null, label: string, run: () => void): Entry {
    this.#sequence += 1;
    const at = this.now + Math.max(0, ms);
    const entry = { at, sequence: this.#sequence, life, label, run, isHeldUp: false, isCancelled: false };
    this.#push(entry);
    return entry;
  }

  /** Resolves in the same process after virtual time. */
  sleep(ms: number, life: Life): Promise<void> {
    return new Promise((resolve) => this.after(ms, life, 'sleep', resolve));
  }

  /** Ends a pause before its time: what waited for its end happens now, in the order it would have had then. */
  wake(life: Life): void {
    life.pausedUntil = 0;
    for (const entry of this.#heap) if (entry.life === life && entry.isHeldUp) entry.at = this.now;
    // A sorted array is a heap.
    this.#heap.sort((a, b) => (isBefore(a, b) ? -1 : 1));
  }

  /** Ends the run at once. */
  fail(error: unknown): void {
    this.#failure ??= error;
  }

  /** Something of the world's state that two runs of a seed must share. */
  note(text: string): void {
    let hash = this.#hash;
    for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
    this.#hash = hash;
  }

  /** A line for the reader of a failure; part of the hash. */
  say(text: string): void {
    this.note(text);
    this.#trace.push(`${this.now.toFixed(1).padStart(9)}  ${text}`);
    if (this.#trace.length > TRACE * 2) this.#trace.splice(0, TRACE);
  }

  get hash(): string {
    return (this.#hash >>> 0).toString(16).padStart(8, '0');
  }

  get trace(): readonly string[] {
    return this.#trace.slice(-TRACE);
  }

  /** Runs until the condition holds (true), or until that virtual time (false). Throws what `fail` was told. */
  run(until: number, isDone: () => boolean = () => false): Promise<boolean> {
    return new Promise((resolve, reject) => {
      let isOver = false;
      const end = (settle: () => void): void => {
        isOver = true;
        settle();
      };
      const step = (): void => {
        if (isOver) return;
        this.current = null;
        try {
          const entry = this.#failure === null && !isDone() ? this.#next(until) : null;
          if (entry !== null) this.#enter(entry);
          else if (this.#failure !== null) end(() => reject(this.#failure));
          else end(() => resolve(isDone()));
        } catch (error) {
          end(() => reject(error));
        }
      };
      // Between two immediates the runtime runs every microtask, and many of them cost one round of its loop.
      const round = (): void => {
        for (let count = 0; count < ROUND && !isOver; count += 1) queueStep(step);
        if (!isOver) queueStep(round);
      };
      round();
    });
  }

  /** The entry whose turn it is, taken from the heap; null when there is none until then. */
  #next(until: number): Entry | null {
    for (;;) {
      const entry = this.#heap[0];
      if (entry === undefined || entry.at > until) {
        this.now = Math.max(this.now, until);
        return null;
      }
      this.#pop();
      if (entry.isCancelled || entry.life?.isAlive === false) continue;
      if (entry.life === null || entry.life.pausedUntil <= entry.at) return entry;
      entry.at = entry.life.pausedUntil;
      entry.isHeldUp = true;
      this.#push(entry);
      this.onHeldUp(entry.life);
    }
  }

  #enter(entry: Entry): void {
    this.now = entry.at;
    this.events += 1;
    this.note(entry.label);
    this.#hash = Math.imul(this.#hash ^ (entry.at * 1000), 0x01000193);
    this.current = entry.life;
    entry.run();
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let index = heap.length;
    heap.push(entry);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || !isBefore(entry, above)) break;
      heap[index] = above;
      index = parent;
    }
    heap[index] = entry;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let index = 0;
    for (;;) {
      let child = index * 2 + 1;
      let below = heap[child];
      if (below === undefined) break;
      const right = heap[child + 1];
      if (right !== undefined && isBefore(right, below)) {
        child += 1;
        below = right;
      }
      if (!isBefore(below, last)) break;
      heap[index] = below;
      index = child;
    }
    heap[index] = last;
  }
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.at < b.at || (a.at === b.at && a.sequence < b.sequence);
}
