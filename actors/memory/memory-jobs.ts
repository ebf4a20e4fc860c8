/** The queue of batches in memory: jobs of a store's commits, delivered in order; one that fails comes again. */
import type { BatchJob, BatchJobs } from '../ports.ts';
import type { MemoryStore } from './memory-store.ts';

export interface MemoryJobs extends BatchJobs {
  readonly waiting: readonly BatchJob[];
  /** Resolves when nothing waits and nothing is under way. */
  idle(): Promise<void>;
}

/** `redeliver` decides when a failed job comes again. */
export function createMemoryJobs(
  store: Pick<MemoryStore, 'onJobs'>,
  redeliver: (again: () => void) => void = (again) => void setImmediate(again),
): MemoryJobs {
  const waiting: BatchJob[] = [];
  const idle: (() => void)[] = [];
  let free = 0;
  let underWay = 0;
  let handle: ((job: BatchJob) => Promise<void>) | null = null;

  function pump(): void {
    while (handle !== null && free > 0) {
      const job = waiting.shift();
      if (job === undefined) break;
      free -= 1;
      underWay += 1;
      handle(job).then(
        () => release(),
        () =>
          redeliver(() => {
            waiting.push(job);
            release();
          }),
      );
    }
    if (underWay === 0 && waiting.length === 0) for (const resolve of idle.splice(0)) resolve();
  }

  function release(): void {
    free += 1;
    underWay -= 1;
    pump();
  }

  store.onJobs((jobs) => {
    waiting.push(...jobs);
    queueMicrotask(pump);
  });
  return {
    waiting,
    async work(concurrency, given) {
      handle = given;
      free = concurrency;
      pump();
    },
    async enqueue(jobs) {
      waiting.push(...jobs);
      pump();
    },
    wake: pump,
    state: () => 'ok',
    idle: () =>
      underWay === 0 && waiting.length === 0 ? Promise.resolve() : new Promise((resolve) => idle.push(resolve)),
  };
}
