/**
 * The queue of batches as pg-boss keeps it: a job that was taken and neither done nor failed comes again after its time, one
 * that failed comes again after a pause. Jobs are put in by the commit that makes them.
 */
import type { BatchJob } from '../../actors/ports.ts';

interface Row {
  readonly job: BatchJob;
  /** Not before this instant. */
  at: number;
  tries: number;
  isDone: boolean;
}

const EXPIRES_MS = 20_000;
const RETRY_MS = 1_000;
const RETRY_MAX_MS = 8_000;

export interface Taken {
  readonly job: BatchJob;
  done(): void;
  failed(): void;
}

export class Queue {
  readonly #rows: Row[] = [];
  readonly #now: () => number;
  /** Whether this job vanishes. */
  readonly #isLost: () => boolean;
  readonly #lost = new Set<number>();
  readonly #onFound: () => void;

  /** `onFound`: a batch whose job had vanished was put in again. */
  constructor(now: () => number, isLost: () => boolean, onFound: () => void) {
    this.#now = now;
    this.#isLost = isLost;
    this.#onFound = onFound;
  }

  put(jobs: readonly BatchJob[]): void {
    for (const job of jobs) {
      if (this.#lost.delete(job.requestId)) this.#onFound();
      if (this.#isLost()) this.#lost.add(job.requestId);
      else this.#rows.push({ job, at: 0, tries: 0, isDone: false });
    }
  }

  take(): Taken | null {
    const now = this.#now();
    const row = this.#rows.find((each) => !each.isDone && each.at <= now);
    if (row === undefined) return null;
    row.at = now + EXPIRES_MS;
    row.tries += 1;
    const { tries } = row;
    return {
      job: row.job,
      done: () => {
        if (row.tries === tries) row.isDone = true;
      },
      failed: () => {
        if (row.tries === tries) row.at = this.#now() + Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** Math.min(10, tries - 1));
      },
    };
  }
}
