/**
 * The parts of a server that end with it, the last one that was opened first. Each has its time: a database that hangs
 * would hold up everything that says goodbye to it, and nothing is lost with what is left as it is, because nothing was
 * acknowledged before it was committed.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from '../../actors/ports.ts';

interface Part {
  readonly name: string;
  readonly close: () => Promise<void> | void;
}

const WITHIN_MS = 15_000;
/** For each of the others, once one has not ended in time. */
const HURRIED_MS = 1_000;

export class Closing {
  readonly #log: Pick<Log, 'warn'>;
  readonly #withinMs: number;
  readonly #parts: Part[] = [];
  #stopping: Promise<void> | null = null;

  constructor(log: Pick<Log, 'warn'>, withinMs: number = WITHIN_MS) {
    this.#log = log;
    this.#withinMs = withinMs;
  }

  add(name: string, close: Part['close']): void {
    this.#parts.push({ name, close });
  }

  /** Idempotent. Throws what a part throws; those that were opened before it stay then. */
  stop(): Promise<void> {
    this.#stopping ??= this.#closeAll();
    return this.#stopping;
  }

  async #closeAll(): Promise<void> {
    let withinMs = this.#withinMs;
    for (let part = this.#parts.pop(); part !== undefined; part = this.#parts.pop()) {
      if (await isDoneWithin(Promise.resolve(part.close()), withinMs)) continue;
      this.#log.warn('A part of the server does not end; it is left as it is', {
        part: part.name,
        waited_ms: withinMs,
      });
      withinMs = Math.min(withinMs, HURRIED_MS);
    }
  }
}

async function isDoneWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const patience = new AbortController();
  const late = pause(ms, false, { signal: patience.signal }).catch(() => false);
  // Nobody hears of a failure that comes after the time.
  work.catch(() => {});
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    patience.abort();
  }
}
