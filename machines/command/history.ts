/** The chart of a command, folded from the rows its execution's log has about it (api 4.2). */

import type { LogEvent } from '../events.ts';
import { fold, initialSnapshot } from '../turn.ts';
import { type CommandEvent, commandMachine } from './machine.ts';
import { NO_CHILD } from './retry-wait.ts';

export type CommandSnapshot = ReturnType<typeof foldCommand>;

/** `events` are the rows of one command that are not stale, by number; the first is its `command.issued`. */
export function foldCommand(events: readonly LogEvent[]) {
  let snapshot = initialSnapshot(commandMachine);
  for (const event of events) {
    const step = commandEventOf(event, snapshot.value === 'PARKED');
    if (step !== null && snapshot.status === 'active') snapshot = fold(commandMachine, snapshot, step).snapshot;
  }
  return snapshot;
}

/** What a row means to the chart; null: nothing. Call rows attach an outcome and settle only what is parked. */
function commandEventOf(event: LogEvent, isParked: boolean): CommandEvent | null {
  switch (event.type) {
    case 'command.claimed':
      return { type: 'command.claimed', attempt: event.attempt ?? 0, workerId: event.workerId ?? '' };
    case 'command.started':
    case 'command.failed':
    case 'command.cancelled':
      return { type: event.type };
    case 'command.completed': {
      const child = event.context['child_execution_id'];
      return event.context['pending_callback'] === true
        ? { type: 'command.parked', childExecutionId: typeof child === 'number' ? child : 0 }
        : { type: 'command.completed' };
    }
    case 'command.heartbeat':
      return typeof event.context['resume_at'] === 'string'
        ? { type: 'command.parked', childExecutionId: NO_CHILD }
        : null;
    case 'call.done':
      return isParked ? { type: 'command.completed' } : null;
    case 'call.error':
      return isParked ? { type: 'command.failed' } : null;
    default:
      return null;
  }
}
