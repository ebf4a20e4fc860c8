/** Whether a batch changed the machine: at least one of its events reached the chart while the run was open. */
import type { LogEvent } from '../events.ts';

const MOVING: ReadonlySet<string> = new Set([
  'call.done',
  'call.error',
  'command.completed',
  'command.failed',
  'outcome.reported',
]);

/** `endedBy` is the cause of the run's terminal event; what comes after it in the order of causes found the run ended. */
export function isActionable(events: readonly LogEvent[], endedBy: number | null): boolean {
  return events.some(
    (event) =>
      MOVING.has(event.type) &&
      !event.stale &&
      event.meta['late'] !== true &&
      (endedBy === null || event.causeId <= endedBy),
  );
}
