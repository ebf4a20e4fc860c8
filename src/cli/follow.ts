/**
 * Watches one execution until it ends by asking for the events after the last one seen. The pause grows while nothing
 * happens, so that a long wait costs little and a short run is seen at once.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Remote } from './remote.ts';
import { progressAfter, type RunProgress, type SeenEvent } from './step-progress.ts';

const SHORTEST_MS = 25;
const LONGEST_MS = 400;

export interface Watcher {
  /** After each answer that held news. */
  seen(run: RunProgress, events: readonly SeenEvent[]): void;
}

/** Resolves with the last picture: the execution has ended, or the signal was aborted. */
export async function follow(
  remote: Remote,
  id: number,
  from: RunProgress,
  watcher: Watcher,
  signal: AbortSignal,
): Promise<RunProgress> {
  let run = from;
  let wait = SHORTEST_MS;
  while (run.ended === null && !signal.aborted) {
    const events = await remote.events(id, run.lastEventId);
    if (events.length > 0) {
      run = events.reduce(progressAfter, run);
      watcher.seen(run, events);
      wait = SHORTEST_MS;
      continue;
    }
    await pause(wait, undefined, { signal }).catch(() => {});
    wait = Math.min(LONGEST_MS, wait * 1.5);
  }
  return run;
}
