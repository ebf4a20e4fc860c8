/**
 * Turns SIGINT, SIGTERM and SIGHUP into one AbortSignal. A second signal ends the process at once; npm and a terminal
 * both deliver the same Ctrl-C, so a signal counts as the second one only after a moment. The launcher's death counts
 * as a signal too, and so does npm's, so that nothing lives on unseen.
 */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const SAME_PRESS_MS = 400;
const LOOK_FOR_PARENT_MS = 500;

export interface StopSignal {
  readonly signal: AbortSignal;
  /** Gives the signals their ordinary meaning back. */
  dispose(): void;
}

/** `onFirst` is told once, when the stop begins. */
export function stopSignal(onFirst: () => void = () => {}): StopSignal {
  const controller = new AbortController();
  let firstAt = 0;
  const stop = (): void => {
    if (firstAt > 0) {
      if (Date.now() - firstAt > SAME_PRESS_MS) process.exit(130);
      return;
    }
    firstAt = Date.now();
    onFirst();
    controller.abort();
  };
  for (const name of SIGNALS) process.on(name, stop);
  process.on('disconnect', stop);
  process.channel?.unref();
  const watch = watchParent(stop);
  return {
    signal: controller.signal,
    dispose: () => {
      for (const name of SIGNALS) process.off(name, stop);
      process.off('disconnect', stop);
      clearInterval(watch);
    },
  };
}

/**
 * npm starts its scripts in a shell, passes its signals to that shell, and not every shell passes them on. All that this
 * process sees is that it has another parent; nothing tells it, so it has to look.
 */
function watchParent(stop: () => void): NodeJS.Timeout | undefined {
  if (process.env['npm_lifecycle_event'] === undefined) return undefined;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, LOOK_FOR_PARENT_MS);
  return timer.unref();
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

/** What `start` resolves to, or null when the signal ended it. */
export async function unlessAborted<T>(signal: AbortSignal, start: Promise<T>): Promise<T | null> {
  try {
    return await start;
  } catch (error) {
    if (signal.aborted && error === signal.reason) return null;
    throw error;
  }
}
