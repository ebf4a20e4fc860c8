/**
 * Folding a log by itself: every decider is muted, so new code never rewrites history. Rows are folded by
 * (`cause_id`, `event_id`), because the events of a batch are numbered before their decisions are.
 */
import type { LogEvent } from './events.ts';
import { absorbEvent, type ExecutionState, newExecution } from './execution/take-turn.ts';

export function foldOrder(events: readonly LogEvent[]): readonly LogEvent[] {
  let last = 0;
  const isOrdered = events.every(({ causeId }) => {
    const follows = last <= causeId;
    last = causeId;
    return follows;
  });
  if (isOrdered) return events;
  return [...events].sort((a, b) => a.causeId - b.causeId || a.eventId - b.eventId);
}

/** The state an execution's log stands for; `onEvent` sees each row after it was folded. */
export function replayExecution(
  events: readonly LogEvent[],
  onEvent?: (event: LogEvent, state: ExecutionState) => void,
): ExecutionState {
  const state = newExecution();
  for (const event of foldOrder(events)) {
    absorbEvent(state, event);
    onEvent?.(event, state);
  }
  return state;
}
