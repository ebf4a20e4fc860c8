/**
 * Handling an event that is in the log already: its turn, and what it means for the row of its command. A single event
 * is handled in the flush that appends it, one of a batch later; both go through here, so both mean the same.
 */
import { type EventDraft, type LogEvent, TERMINAL_TYPES } from '../machines/events.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import { isMap } from '../machines/json.ts';
import type { ExecutionActor } from './execution-actor.ts';
import type { CommandRow } from './ports.ts';
import { endFor, OUTCOME_REPORTED } from './reported-outcome.ts';

const PARKED_SECONDS = 3600;

/** Whether the run will have ended when an event that is filed now gets its turn. */
export function endsBefore(actor: ExecutionActor): boolean {
  return actor.inbox.some((event) => TERMINAL_TYPES.has(event.type) || event.type === OUTCOME_REPORTED);
}

/** Turns of all events that wait, oldest first. A throw leaves the actor unusable: the flush evicts it. */
export function drainInbox(actor: ExecutionActor): void {
  if (actor.inbox.length === 0) return;
  const { writing } = actor;
  if (writing === null) throw new Error('an inbox was drained outside of a flush');
  // An end that stands in the log already (api 3.8) leaves nothing to decide to what was filed before it.
  let isEnding = actor.inbox.some((event) => TERMINAL_TYPES.has(event.type));
  for (let event = actor.inbox[0]; event !== undefined; event = actor.inbox[0]) {
    if (TERMINAL_TYPES.has(event.type)) isEnding = false;
    if (isEnding) foldEvent(actor, event);
    else handleEvent(actor, event);
    // The end of a run empties the inbox by itself.
    actor.inbox.shift();
    writing.handled += 1;
  }
}

/** Takes the turn of an appended event; returns the number of commands issued. Late and stale ones mean nothing. */
export function handleEvent(actor: ExecutionActor, event: LogEvent): number {
  if (event.stale || event.meta['late'] === true || actor.state.snapshot.status === 'done') return 0;
  if (TERMINAL_TYPES.has(event.type)) {
    // Written by an operator's own statement (api 3.8).
    actor.take(event);
    if (actor.writing !== null) actor.writing.terminal = event;
    return 0;
  }
  if (event.type === OUTCOME_REPORTED) {
    endFor(actor, event);
    return 0;
  }
  const row = event.commandId === null ? undefined : actor.commands.get(event.commandId);
  if (row === undefined) {
    actor.absorb(event);
    return 0;
  }
  switch (event.type) {
    case 'command.started':
      if (row.startedAt === null && row.workerId !== null)
        actor.change({ ...row, status: 'RUNNING', startedAt: event.at, latestEventId: event.eventId });
      return 0;
    case 'call.done':
    case 'call.error': {
      if (row.parkedOn !== null) return settle(actor, row, event, event.type === 'call.done');
      actor.absorb(event);
      return 0;
    }
    case 'command.completed':
      return isParking(event) ? park(actor, row, event) : settle(actor, row, event, true);
    case 'command.failed':
      return settle(actor, row, event, false);
    default:
      return 0;
  }
}

/** What the event says of its command, without a turn. */
function foldEvent(actor: ExecutionActor, event: LogEvent): void {
  if (event.stale || event.meta['late'] === true || event.type === OUTCOME_REPORTED) return;
  const row = event.commandId === null ? undefined : actor.commands.get(event.commandId);
  actor.absorb(event);
  if (row === undefined || runOf(actor.state).open[row.commandId] !== undefined) return;
  const { settled } = runOf(actor.state);
  const ok = settled?.commandId === row.commandId ? settled.ok : event.type === 'command.completed';
  actor.change(actor.closed(row, ok ? 'COMPLETED' : 'FAILED', event, ok ? null : event.error));
}

/** `command.completed` that leaves its command waiting for a child (language 14.4). */
export function isParking({ type, context }: Pick<EventDraft, 'type' | 'context'>): boolean {
  return type === 'command.completed' && isMap(context) && context['pending_callback'] === true;
}

function park(actor: ExecutionActor, row: CommandRow, event: LogEvent): number {
  const turn = actor.take(event);
  if (row.workerId !== null) actor.park(row, event, PARKED_SECONDS);
  return turn.issued.length;
}

/** The row says what the chart made of it: an attached outcome counts more than the type (language 14.2). */
function settle(actor: ExecutionActor, row: CommandRow, event: LogEvent, completed: boolean): number {
  const wasParked = row.parkedOn !== null;
  const turn = actor.take(event);
  const { settled } = actor.state.snapshot.context.run;
  const ok = !wasParked && settled !== null && settled.commandId === row.commandId ? settled.ok : completed;
  actor.change({
    ...actor.closed(row, ok ? 'COMPLETED' : 'FAILED', event, event.error),
    startedAt: row.startedAt ?? (wasParked ? null : event.at),
  });
  return turn.issued.length;
}
