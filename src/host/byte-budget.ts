/** A number of bytes that many share: who asks for more than is left waits, in order, until others give theirs back. */

export interface ByteBudget {
  readonly max: number;
  /**
   * Resolves when so many bytes are the caller's; the function gives them back, once however often it is called.
   * Rejects with the signal's reason when that comes first. More than `max` is never granted: ask before.
   */
  take(bytes: number, signal: AbortSignal): Promise<() => void>;
}

interface Waiter {
  readonly bytes: number;
  readonly grant: () => void;
}

export function createByteBudget(max: number): ByteBudget {
  const waiting = new Set<Waiter>();
  let left = max;

  function taken(bytes: number): () => void {
    let given = false;
    return () => {
      if (given) return;
      given = true;
      left += bytes;
      serve();
    };
  }

  function serve(): void {
    for (const waiter of waiting) {
      if (waiter.bytes > left) return;
      waiting.delete(waiter);
      left -= waiter.bytes;
      waiter.grant();
    }
  }

  return {
    max,
    take(bytes, signal) {
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        const leave = () => {
          waiting.delete(waiter);
          reject(signal.reason);
          // Somebody smaller may have waited behind this one.
          serve();
        };
        const waiter: Waiter = {
          bytes,
          grant: () => {
            signal.removeEventListener('abort', leave);
            resolve(taken(bytes));
          },
        };
        signal.addEventListener('abort', leave, { once: true });
        waiting.add(waiter);
        serve();
      });
    },
  };
}
