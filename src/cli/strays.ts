/**
 * A promise that is rejected while nobody listens is a defect of one piece of work. Node would end the process for it, and
 * with it everything else that runs there; so it is told loudly, and the process lives on. What is thrown outside of
 * any promise still ends it: nobody knows what was left half done.
 */
import type { Log } from '../log.ts';

/** Where Node tells of them; `process`, except in tests. */
export interface StraySource {
  on(event: 'unhandledRejection', listener: (reason: unknown) => void): unknown;
}

export function surviveStrays(log: Pick<Log, 'error'>, source: StraySource = process): void {
  source.on('unhandledRejection', (reason) => {
    log.error('A promise was rejected and nobody listened', {
      error: reason instanceof Error ? reason : new Error(String(reason)),
    });
  });
}
