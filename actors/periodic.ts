/**
 * Work that comes again: one run at a time, the next one a pause after the last, failures logged and tried again then.
 * `now` joins a run under way rather than starting a second.
 */
import type { Log } from './ports.ts';

export interface Periodic {
  start(): void;
  /** Resolves when a run under way has ended. */
  stop(): Promise<void>;
  /** When the next run is due, as the monotonic pause left; null while none is planned. */
  dueInMs(): number | null;
}

export interface PeriodicParts {
  /** Stands in the log when a run fails. */
  readonly name: string;
  readonly log: Log;
  readonly firstMs: number;
  /** Answers after how many milliseconds to run again. */
  run(): Promise<number>;
  /** Pause after a failed run. */
  readonly retryMs: number;
}

export function createPeriodic(parts: PeriodicParts): Periodic {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let running: Promise<void> | null = null;
  let isStopped = false;
  let dueAt: number | null = null;

  function plan(ms: number): void {
    if (isStopped) return;
    dueAt = performance.now() + ms;
    timer = setTimeout(() => {
      running = round().finally(() => {
        running = null;
      });
    }, ms);
    timer.unref?.();
  }

  async function round(): Promise<void> {
    let pauseMs = parts.retryMs;
    try {
      pauseMs = await parts.run();
    } catch (error) {
      parts.log.warn('Recurring work failed and will be tried again', {
        job: parts.name,
        error: error instanceof Error ? error.message : String(error),
      });
    }
    plan(pauseMs);
  }

  return {
    start() {
      if (timer === null) plan(parts.firstMs);
    },
    async stop() {
      isStopped = true;
      if (timer !== null) clearTimeout(timer);
      dueAt = null;
      await running;
    },
    dueInMs: () => (dueAt === null ? null : Math.max(0, dueAt - performance.now())),
  };
}
