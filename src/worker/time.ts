/**
 * Time as a running command meets it: what it measures by, how it waits, what ends it. A worker has the machine's; a
 * simulation brings its own, in which a wait of a month is over at once.
 */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';

export interface WorkerTime {
  /** Resolves after so many milliseconds; rejects with the reason of the signal. */
  pause(ms: number, signal: AbortSignal): Promise<void>;
  /** Calls back once after so many milliseconds, unless what it answers is called first. */
  after(ms: number, callback: () => void): () => void;
  /** Lets heartbeats and stop orders through between tries that wait for nothing. */
  breathe(): Promise<void>;
}

/** A longer timer would fire at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export const REAL_TIME: WorkerTime = {
  pause: (ms, signal) => sleep(ms, undefined, { signal }),
  after(ms, callback) {
    const timer = setTimeout(callback, Math.min(ms, TIMER_MAX_MS));
    return () => clearTimeout(timer);
  },
  breathe: () => setImmediate(),
};
