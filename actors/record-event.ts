/**
 * A single event from outside, as rows and a turn (api 2.5.2). Settling events drive the engine by their type alone;
 * outcomes given by an operator end the run with the pair of rows every end has; the rest is kept as information.
 */
import { instantOf } from '../machines/command/instant.ts';
import {
  type EventDraft,
  type EventResult,
  type EventStatus,
  type LogEvent,
  nodeIdOf,
  TERMINAL_TYPES,
} from '../machines/events.ts';
import { isMap, type Json, type JsonMap } from '../machines/json.ts';
import { maskSecretKeys } from '../machines/secret-keys.ts';
import { DomainError } from './errors.ts';
import type { ExecutionActor } from './execution-actor.ts';
import { metaOf } from './grant.ts';
import { handleEvent, isParking } from './inbox.ts';
import type { CommandRow } from './ports.ts';
import { endsNow, familyOf, type Known } from './report.ts';
import { OUTCOME_REPORTED } from './reported-outcome.ts';
import type { EventInput, EventReceipt } from './services.ts';

const RESERVED: ReadonlySet<string> = new Set([
  'execution.started',
  'command.issued',
  'command.claimed',
  'loop.done',
  'loop.stalled',
  'ctx.updated',
  'step.skipped',
]);

/** Types of a command's own rows, with the status each has by default. Nothing inherited: a type may be `constructor`. */
export const STATUS: Readonly<Record<string, EventStatus>> = Object.assign(Object.create(null), {
  'call.done': 'completed',
  'call.error': 'failed',
  'command.completed': 'completed',
  'command.failed': 'failed',
  'command.cancelled': 'cancelled',
  'command.started': 'running',
  'step.exit': 'completed',
  'playbook.completed': 'completed',
  'playbook.failed': 'failed',
  'execution.cancelled': 'cancelled',
} satisfies Record<string, EventStatus>);

const LATE_OUTCOME = 'late.outcome';
/** Older workers tell it; information like any other (language 13.2). */
const INITIALIZED = 'workflow.initialized';

export function isReserved(type: string): boolean {
  return RESERVED.has(type) || (type.startsWith('workflow.') && type !== INITIALIZED) || type.startsWith('batch.');
}

/** Types that only the server writes are refused before anything is looked up. */
export function refuseReserved(type: string): void {
  if (isReserved(type)) {
    throw new DomainError('validation_error', `body.event_type: '${type}' is written by the server`, {
      errors: [`body.event_type: '${type}' is written by the server`],
    });
  }
}

export function recordEvent(actor: ExecutionActor, input: EventInput, known: Known): EventReceipt {
  const { row } = known;
  if (input.commandId !== null && (row === null || row.executionId !== actor.executionId)) {
    throw new DomainError('not_found', `Command ${input.commandId} not found`);
  }
  const [reported] = known.reported;
  if (reported !== undefined) return receipt(actor, reported.eventId, { duplicate: true });
  if (input.type === 'command.heartbeat') return receipt(actor, row?.eventId ?? 1, { duplicate: true });
  if (input.type === 'step.enter') return receipt(actor, enteredId(actor, input, row), { duplicate: true });
  if (TERMINAL_TYPES.has(input.type)) return recordOutcome(actor, input);
  const isEnded = (endsNow(actor) ?? actor.row.status) !== 'running';
  const attempt = row === null ? input.attempt : attemptOf(input, row, known.events);
  if (row !== null && attempt !== null) refuseUnknownAttempt(input, row, attempt);
  const isStale = row !== null && attempt !== null && attempt < row.attempt;
  const twin = known.events.find((event) => familyOf(event.type) === familyOf(input.type) && input.type in STATUS);
  if (row !== null && !isStale && twin !== undefined) return receipt(actor, twin.eventId, { duplicate: true });

  const draft = draftOf(actor, input, row, attempt);
  if (isStale) {
    const event = actor.append({ ...draft, stale: true, meta: { ...draft.meta, stale: true } });
    return receipt(actor, event.eventId, { stale: true });
  }
  const open = row === null ? undefined : actor.commands.get(row.commandId);
  if (isEnded || (row !== null && open === undefined)) {
    const event = actor.append({ ...draft, meta: { ...draft.meta, late: true } });
    return receipt(actor, event.eventId, { late: true });
  }
  if (open === undefined || !(input.type in STATUS)) return receipt(actor, actor.append(draft).eventId, {});
  return recordProgress(actor, open, draft);
}

function recordProgress(actor: ExecutionActor, row: CommandRow, draft: EventDraft): EventReceipt {
  const event = actor.append(settlingDraft(draft, row.parkedOn !== null));
  return receipt(actor, event.eventId, { commandsGenerated: handleEvent(actor, event) });
}

/** A draft of an open command as it is written: what settles the command is marked as such. */
export function settlingDraft(draft: EventDraft, isParked: boolean): EventDraft {
  switch (draft.type) {
    case 'call.done':
    case 'call.error':
      return isParked ? { ...draft, closes: true } : draft;
    case 'command.cancelled':
      // A cancelled command that nobody asked to cancel is a failed one: its step has no outcome.
      return { ...draft, type: 'command.failed', status: 'failed', closes: true };
    case 'command.completed':
    case 'command.failed':
      return isParking(draft) ? draft : { ...draft, status: STATUS[draft.type] ?? 'failed', closes: true };
    default:
      return draft;
  }
}

/** An end from outside: the `workflow.*` row stands directly before its `playbook.*` row. */
function recordOutcome(actor: ExecutionActor, input: EventInput): EventReceipt {
  if ((endsNow(actor) ?? actor.row.status) !== 'running') {
    const draft = draftOf(actor, { ...input, type: LATE_OUTCOME, step: input.step ?? actor.row.path }, null, null);
    const event = actor.append({ ...draft, meta: { ...draft.meta, late: true, reported_type: input.type } });
    return receipt(actor, event.eventId, { late: true });
  }
  const error = errorText(input.payload['error']);
  const event =
    input.type === 'execution.cancelled'
      ? endCancelled(actor, {
          reason: textOf(input.payload['reason']) ?? error ?? 'Cancelled by an event',
          by: 'event',
        })
      : endFromOutside(actor, {
          status: input.type === 'playbook.completed' ? 'completed' : 'failed',
          reason: error ?? textOf(input.payload['reason']) ?? 'The execution was ended by an event',
          result: input.payload['result'] ?? input.payload['response'] ?? null,
        });
  return receipt(actor, event.eventId, {});
}

export function endFromOutside(
  actor: ExecutionActor,
  end: {
    readonly status: 'completed' | 'failed';
    readonly reason: string;
    readonly result: Json;
    readonly detail?: JsonMap;
  },
): LogEvent {
  const failed = end.status === 'failed';
  const context: JsonMap = {
    status: end.status,
    final_step: null,
    result: failed ? null : end.result,
    error: failed ? end.reason : null,
    reason: end.reason,
    ...(failed ? { error_detail: end.detail ?? { message: end.reason, failed_steps: [], errors: [] } } : {}),
  };
  const common = { status: end.status, context, error: failed ? end.reason : null, duration: durationOf(actor) };
  actor.append({ ...common, type: `workflow.${end.status}`, nodeName: 'workflow', nodeType: 'workflow' });
  return actor.deliver({ ...common, type: `playbook.${end.status}`, nodeName: actor.row.path, nodeType: 'playbook' })
    .event;
}

export function endCancelled(
  actor: ExecutionActor,
  cancel: { readonly reason: string; readonly by: string; readonly extra?: JsonMap },
): LogEvent {
  return actor.deliver({
    type: 'execution.cancelled',
    status: 'cancelled',
    nodeName: actor.row.path,
    nodeType: 'execution',
    duration: durationOf(actor),
    context: { reason: cancel.reason, cancelled_at: actor.at, cancelled_by: cancel.by, ...cancel.extra },
  }).event;
}

function durationOf(actor: ExecutionActor): number {
  return Math.max(0, instantOf(actor.at) - instantOf(actor.row.startTime));
}

/** Stored as information and never looked at again, whatever is in it. */
function isInformation({ type }: EventInput): boolean {
  return !(type in STATUS) && type !== LATE_OUTCOME && type !== OUTCOME_REPORTED;
}

/** An event of a type that is not known comes from who knows where: nothing in it has been scrubbed (api 8.2). */
function masked(input: EventInput): EventInput {
  if (!isInformation(input)) return input;
  return { ...input, payload: maskSecretKeys(input.payload), meta: maskSecretKeys(input.meta) };
}

/** What is too large for the log is stored apart, and its summary with a reference stands in its place (api 1.9, 2.5.2). */
function contextOf(actor: ExecutionActor, payload: JsonMap, input: EventInput, step: string, row: CommandRow | null) {
  if (!isInformation(input)) return payload;
  return actor.store(payload, step, row?.commandId ?? null, actor.engine.limits.inlineMaxBytes)?.summary ?? payload;
}

export function draftOf(
  actor: ExecutionActor,
  given: EventInput,
  row: CommandRow | null,
  attempt: number | null,
): EventDraft {
  const input = masked(given);
  const step = input.step ?? row?.stepName ?? null;
  if (step === null) {
    throw new DomainError('validation_error', 'body.step: is required without a command_id', {
      errors: ['body.step: is required without a command_id'],
    });
  }
  const { result, response, ...payload } = input.payload;
  const error = input.payload['error'];
  const duration = input.payload['duration_ms'];
  const status = input.status ?? STATUS[input.type] ?? 'completed';
  return {
    type: input.type,
    status,
    nodeName: step,
    nodeId: nodeIdOf(step, row?.iterationIndex ?? null),
    nodeType: row !== null && /^(?:command|call)\./.test(input.type) ? row.toolKind : 'step',
    parentEventId: row?.eventId ?? null,
    commandId: row?.commandId ?? null,
    attempt,
    workerId: input.workerId,
    reportId: input.reportId,
    reportSeq: input.reportId === null ? null : 0,
    duration: typeof duration === 'number' && duration >= 0 ? duration : null,
    error: errorText(error),
    context: contextOf(actor, payload, input, step, row),
    result: resultOf(actor, status, result ?? response, error, step, row),
    meta: {
      ...input.meta,
      ...(row === null ? {} : metaOf(row)),
      ...(attempt === null ? {} : { attempt }),
      ...(input.actionable ? {} : { actionable: false }),
      ...(input.producerTime === null ? {} : { producer_time: input.producerTime }),
    },
  };
}

function resultOf(
  actor: ExecutionActor,
  status: EventStatus,
  value: Json | undefined,
  error: Json | undefined,
  step: string,
  row: CommandRow | null,
): EventResult | null {
  const failure: JsonMap =
    error === undefined || error === null
      ? {}
      : { error: isMap(error) ? error : { kind: 'unknown', code: null, message: String(error) } };
  if (value === undefined) return Object.keys(failure).length === 0 ? null : { status, context: failure };
  // A result in the row's own form is taken as it is; anything else is the data.
  const data =
    isMap(value) && isMap(value['context']) && Object.hasOwn(value['context'], 'data')
      ? (value['context']['data'] ?? null)
      : value;
  const stored = actor.store(data, step, row?.commandId ?? null, actor.engine.limits.inlineMaxBytes);
  return stored === null
    ? { status, context: { data, ...failure } }
    : { status, context: { ...stored.summary, ...failure }, reference: stored.reference };
}

/** The event's own, else the newest the worker was given, else the present one. `events` are the rows of the command. */
export function attemptOf(input: EventInput, row: CommandRow, events: readonly LogEvent[] = []): number {
  if (input.attempt !== null) return input.attempt;
  const isClaim = ({ type, workerId }: LogEvent) => type === 'command.claimed' && workerId === input.workerId;
  return (input.workerId === null ? null : events.findLast(isClaim)?.attempt) ?? row.attempt;
}

/** The server's own `step.enter` of the step that is meant. */
export function enteredId(actor: ExecutionActor, input: EventInput, row: CommandRow | null): number {
  return actor.state.snapshot.context.run.steps[row?.stepName ?? input.step ?? '']?.entered || 1;
}

/** An attempt that was never granted, or not to who reports it, is unknown and leaves nothing behind (api 4.2). */
function refuseUnknownAttempt(input: EventInput, row: CommandRow, attempt: number): void {
  const isForeign = input.isReport === true && attempt === row.attempt && row.workerId !== input.workerId;
  if (attempt > row.attempt || isForeign) {
    throw new DomainError('not_found', `Command ${row.commandId} has no attempt ${attempt} of this worker`);
  }
}

function receipt(actor: ExecutionActor, eventId: number, flags: Partial<EventReceipt>): EventReceipt {
  return {
    eventId,
    commandsGenerated: 0,
    duplicate: false,
    late: false,
    stale: false,
    executionStatus: endsNow(actor) ?? actor.row.status,
    ...flags,
  };
}

function errorText(error: Json | undefined): string | null {
  if (typeof error === 'string' && error !== '') return error;
  return isMap(error) ? textOf(error['message']) : null;
}

function textOf(value: Json | undefined): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
