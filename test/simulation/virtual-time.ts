/**
 * Virtual time for code that asks the runtime for it: timers, immediates, the monotonic clock and abort time-outs of this
 * process go to the heap while a world runs, and back afterwards. A timer belongs to the process whose code set it, so it
 * dies and pauses with it.
 */
import type { Kernel } from './kernel.ts';

interface Handle {
  cancel(): void;
}

const real = {
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setInterval: globalThis.setInterval,
  clearInterval: globalThis.clearInterval,
  setImmediate: globalThis.setImmediate,
  clearImmediate: globalThis.clearImmediate,
};

/** Requests that arrive so close together are one turn of the event loop. Milliseconds. */
const IMMEDIATE_MS = 0.2;

/** Runs the work in virtual time. Worlds do not overlap. */
export async function inVirtualTime<T>(kernel: Kernel, work: () => Promise<T>): Promise<T> {
  const once = (run: (...args: unknown[]) => void, ms: number, args: unknown[]): Handle => {
    const entry = kernel.after(ms, kernel.current, 'timer', () => run(...args));
    return handle(() => {
      entry.isCancelled = true;
    });
  };
  const every = (run: (...args: unknown[]) => void, ms: number, args: unknown[]): Handle => {
    let next = { isCancelled: false };
    const life = kernel.current;
    const again = () => {
      next = kernel.after(Math.max(1, ms), life, 'interval', () => {
        again();
        run(...args);
      });
    };
    again();
    return handle(() => {
      next.isCancelled = true;
    });
  };
  const cancel = (timer: unknown): void => {
    // Handles of the real runtime that were made before are none of ours.
    if (isHandle(timer)) timer.cancel();
  };
  const timeout = AbortSignal.timeout;
  Object.assign(globalThis, {
    setTimeout: (run: () => void, ms = 0, ...args: unknown[]) => once(run, ms, args),
    setInterval: (run: () => void, ms = 0, ...args: unknown[]) => every(run, ms, args),
    setImmediate: (run: () => void, ...args: unknown[]) => once(run, IMMEDIATE_MS, args),
    clearTimeout: cancel,
    clearInterval: cancel,
    clearImmediate: cancel,
  });
  Object.defineProperty(performance, 'now', { value: () => kernel.now, configurable: true });
  AbortSignal.timeout = (ms) => {
    const controller = new AbortController();
    kernel.after(ms, kernel.current, 'timeout', () => controller.abort());
    return controller.signal;
  };
  try {
    return await work();
  } finally {
    Object.assign(globalThis, real);
    AbortSignal.timeout = timeout;
    // The own property hides the method of the prototype.
    Reflect.deleteProperty(performance, 'now');
  }
}

function handle(cancel: () => void): Handle {
  const made = { cancel, unref: () => made, ref: () => made, hasRef: () => true };
  return made;
}

function isHandle(value: unknown): value is Handle {
  return typeof value === 'object' && value !== null && 'cancel' in value && typeof value.cancel === 'function';
}
