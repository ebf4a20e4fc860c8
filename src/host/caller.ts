/**
 * The caller of the request being served, for services that leave a trace (api 8.5) or ask what the caller may. Open mode:
 * everyone is admin, and hot routes run outside, so that a worker report pays nothing for it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type Caller, type CurrentCaller, OPEN_CALLER } from '../../actors/audit.ts';

export interface Callers {
  /** Outside a request: the caller of open mode. */
  readonly current: CurrentCaller;
  run<T>(caller: Caller, work: () => T): T;
}

export function createCallers(): Callers {
  const storage = new AsyncLocalStorage<Caller>();
  return {
    current: () => storage.getStore() ?? OPEN_CALLER,
    run: (caller, work) => storage.run(caller, work),
  };
}
