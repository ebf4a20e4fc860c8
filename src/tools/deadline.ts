/**
 * One try's time: a signal that aborts when the limit passes or when the caller cancels, and the word which of the
 * two it was. Always dispose it, or the timer keeps the process awake.
 */
export interface Deadline extends Disposable {
  readonly signal: AbortSignal;
  /** Why the signal fired; null while it has not. */
  why(): 'timeout' | 'cancelled' | null;
}

/** Starts the clock of one try. `limitMs` is in milliseconds. */
export function startDeadline(limitMs: number, caller: AbortSignal): Deadline {
  const controller = new AbortController();
  let why: 'timeout' | 'cancelled' | null = null;
  const end = (reason: 'timeout' | 'cancelled') => {
    why ??= reason;
    controller.abort();
  };
  const cancel = () => end('cancelled');
  // A timer longer than 2^31 - 1 ms would fire at once.
  const timer = setTimeout(() => end('timeout'), Math.min(Math.max(limitMs, 1), 2 ** 31 - 1));
  if (caller.aborted) cancel();
  else caller.addEventListener('abort', cancel, { once: true });
  return {
    signal: controller.signal,
    why: () => why,
    [Symbol.dispose]() {
      clearTimeout(timer);
      caller.removeEventListener('abort', cancel);
    },
  };
}

/** Seconds as a reader writes them: `1.5 s`. */
export function spellSeconds(limitMs: number): string {
  return `${Number((limitMs / 1000).toFixed(3))} s`;
}
