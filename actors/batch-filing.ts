/**
 * Filing an event of a batch: the rules of a single event (record-event.ts) decided at intake, the turn left for later.
 * What was appended since the log was read is remembered by the actor, so a repeat is known however close it comes.
 * Throws `queue_unavailable` when the actor does not remember that far: read again.
 */
import { TERMINAL_TYPES } from '../machines/events.ts';
import { DomainError } from './errors.ts';
import { type ExecutionActor, type Trace, traceOf } from './execution-actor.ts';
import { endsBefore } from './inbox.ts';
import type { CommandRow, FiledBefore } from './ports.ts';
import { attemptOf, draftOf, enteredId, STATUS, settlingDraft } from './record-event.ts';
import { familyOf } from './report.ts';
import { OUTCOME_REPORTED } from './reported-outcome.ts';
import type { EventInput } from './services.ts';

/** The id of the row, or of the first occurrence when the event is known. */
export function fileEvent(actor: ExecutionActor, input: EventInput, requestId: number, before: FiledBefore): number {
  const written = actor.writtenSince(before.lastEventId);
  if (written === null) {
    throw new DomainError('queue_unavailable', 'The execution is changed by others at this moment', { outdated: true });
  }
  const { reportId, commandId } = input;
  if (reportId !== null) {
    const known = [...before.reported, ...written].find((event) => event.reportId === reportId);
    if (known !== undefined) return known.eventId;
  }
  const open = commandId === null ? undefined : actor.commands.get(commandId);
  const row = open ?? before.commands.find((command) => command.commandId === commandId) ?? null;
  if (input.type === 'command.heartbeat') return row?.eventId ?? 1;
  if (input.type === 'step.enter') return enteredId(actor, input, row);

  const attempt =
    row === null
      ? input.attempt
      : attemptOf(
          input,
          row,
          before.events.filter((event) => event.commandId === commandId),
        );
  const isOutcome = TERMINAL_TYPES.has(input.type);
  const type = isOutcome ? OUTCOME_REPORTED : input.type;
  const draft = draftOf(actor, { ...input, type }, row, attempt);
  const meta = {
    ...draft.meta,
    batch_request_id: String(requestId),
    ...(isOutcome ? { reported_type: input.type } : {}),
  };
  if (row !== null && attempt !== null && attempt < newestAttempt(row, written))
    return actor.append({ ...draft, stale: true, meta: { ...meta, stale: true } }).eventId;
  const own = [...before.events.map(traceOf), ...written].filter(
    (event) => event.commandId === commandId && !event.stale,
  );
  if (row !== null && input.type in STATUS) {
    const twin = own.find((event) => familyOf(event.type) === familyOf(input.type));
    if (twin !== undefined) return twin.eventId;
  }
  if (
    actor.isEnded ||
    actor.state.snapshot.status === 'done' ||
    endsBefore(actor) ||
    (row !== null && open === undefined)
  )
    return actor.append({ ...draft, meta: { ...meta, late: true } }).eventId;
  if (open === undefined) return actor.file({ ...draft, meta }).eventId;
  const isParked = open.parkedOn !== null || own.some((event) => event.parks);
  return actor.file({ ...settlingDraft(draft, isParked), meta }).eventId;
}

/** A row of a command that is closed by now is as it was read: since then it may have been granted anew. */
function newestAttempt({ commandId, attempt }: CommandRow, written: readonly Trace[]): number {
  const granted = written.filter((event) => event.type === 'command.claimed' && event.commandId === commandId);
  return Math.max(attempt, ...granted.map((event) => event.attempt ?? 0));
}
