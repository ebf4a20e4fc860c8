/**
 * What a worker says of a command, as rows. A report of the present claim is written in its canonical form and takes its
 * turn (language 13.3); anything else is compared with what the log already holds: a repeat is dropped, an outrun claim
 * is kept as stale, work for something that has ended is kept as late (language 14.3, api 4.2).
 */
import type { EventDraft, EventResult, LogEvent } from '../machines/events.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import type { Json, JsonMap } from '../machines/json.ts';
import { isMap } from '../machines/json.ts';
import type { ExecutionActor } from './execution-actor.ts';
import { metaOf } from './grant.ts';
import type { CommandRow, ExecutionStatus } from './ports.ts';
import type { Report, ReportedOutcome, ReportReceipt } from './services.ts';

/** What became of a report; `closed` means that the log has to be asked. */
export type Handling =
  | {
      readonly kind: 'accepted';
      readonly eventIds: readonly number[];
      readonly commandsGenerated: number;
      readonly status: ExecutionStatus;
      readonly child: number | null;
    }
  | { readonly kind: 'closed' }
  | { readonly kind: 'unknown' };

/** Handles the report of a command that is open and held by this worker; everything else is left to `handleLate`. */
export function handleReport(
  actor: ExecutionActor,
  report: Report,
  outcome: ReportedOutcome,
  workerId: string,
): Handling {
  const row = actor.commands.get(report.commandId);
  if (row === undefined || row.parkedOn !== null || report.attempt < row.attempt) return { kind: 'closed' };
  if (row.status === 'PENDING' || report.attempt > row.attempt || row.workerId !== workerId) return { kind: 'unknown' };
  const rows = canonicalRows(actor, row, report, outcome, workerId);
  const eventIds: number[] = [];
  let commandsGenerated = 0;
  let last: LogEvent | null = null;
  for (const draft of rows) {
    if (draft.type === 'command.completed' || draft.type === 'command.failed') {
      const { event, turn } = actor.deliver(draft);
      commandsGenerated += turn.issued.length;
      last = event;
    } else {
      last = draft.type.startsWith('call.') ? actor.note(draft) : actor.append(draft);
    }
    eventIds.push(last.eventId);
  }
  if (last !== null) closeRow(actor, row, outcome, last);
  return {
    kind: 'accepted',
    eventIds,
    commandsGenerated,
    status: endsNow(actor) ?? actor.row.status,
    child: outcome.outcome === 'parked' ? (outcome.childExecutionId ?? null) : null,
  };
}

function closeRow(actor: ExecutionActor, row: CommandRow, outcome: ReportedOutcome, event: LogEvent): void {
  // A turn that ended the execution has closed all rows; this one is set to what really became of it.
  if (outcome.outcome === 'parked') {
    const timeout = parkTimeoutSeconds(actor, row);
    actor.change({
      ...row,
      status: 'RUNNING',
      startedAt: row.startedAt ?? event.at,
      parkedOn: outcome.childExecutionId ?? null,
      nextWakeAt: actor.later(timeout),
      latestEventId: event.eventId,
    });
    return;
  }
  const ok = outcome.outcome === 'ok';
  actor.change({
    ...actor.closed(row, ok ? 'COMPLETED' : 'FAILED', event, ok ? null : messageOf(outcome)),
    startedAt: row.startedAt ?? event.at,
  });
}

/** The status the execution has after the turns of this flush so far; the head follows at its end. */
export function endsNow(actor: ExecutionActor): ExecutionStatus | null {
  const { value } = actor.state.snapshot;
  return value === 'completed' || value === 'failed' || value === 'cancelled' ? value : null;
}

/** Seconds a parked command waits for its child (language 11.7). */
function parkTimeoutSeconds(actor: ExecutionActor, row: CommandRow): number {
  const timeout = actor.plan.steps.get(row.stepName)?.step.tasks[0]?.timeout;
  const seconds = typeof timeout === 'string' ? Number(timeout) : timeout;
  return typeof seconds === 'number' && Number.isFinite(seconds) && seconds > 0 ? seconds : 3600;
}

/** The rows of one report, in order: started, call, exit of a single command's step, closing. */
export function canonicalRows(
  actor: ExecutionActor,
  row: CommandRow,
  report: Pick<Report, 'reportId' | 'attempt'>,
  outcome: ReportedOutcome,
  workerId: string | null,
): readonly EventDraft[] {
  const ok = outcome.outcome === 'ok';
  const isParked = outcome.outcome === 'parked';
  const node = {
    nodeName: row.stepName,
    nodeId: row.iterationIndex === null ? row.stepName : `${row.stepName}#${row.iterationIndex}`,
    nodeType: row.toolKind,
    parentEventId: row.eventId,
    commandId: row.commandId,
    attempt: report.attempt,
    workerId,
    reportId: report.reportId,
  };
  const duration = outcome.durationMs;
  const meta: JsonMap = {
    ...metaOf(row),
    attempt: report.attempt,
    ...(outcome.startedAt === null ? {} : { producer_started_at: outcome.startedAt }),
  };
  const context: JsonMap = { command_id: row.commandId, attempt: report.attempt };
  const status = ok || isParked ? 'completed' : 'failed';
  const error = ok || isParked ? null : messageOf(outcome);
  const drafts: EventDraft[] = [];
  if (row.startedAt === null) drafts.push({ ...node, type: 'command.started', status: 'running', context, meta });
  if (!isParked) {
    drafts.push({
      ...node,
      type: ok ? 'call.done' : 'call.error',
      status,
      duration,
      error,
      context: outcome.log === null ? context : { ...context, log: outcome.log },
      result: resultOf(actor, row, outcome),
      meta: {
        ...meta,
        ...(Object.keys(outcome.ctx).length > 0 ? { ctx: outcome.ctx } : {}),
        ...(Object.keys(outcome.tasks).length > 0 ? { tasks: outcome.tasks } : {}),
        ...(outcome.warnings.length > 0 ? { warnings: outcome.warnings } : {}),
        ...(outcome.failedTask ? { failed_task: outcome.failedTask } : {}),
      },
    });
    if (row.iterationIndex === null) {
      drafts.push({
        ...node,
        type: 'step.exit',
        status,
        duration,
        context: { status, activation: row.activation },
        meta,
      });
    }
  }
  drafts.push({
    ...node,
    type: ok || isParked ? 'command.completed' : 'command.failed',
    status,
    duration,
    error,
    closes: !isParked,
    context: isParked
      ? { ...context, pending_callback: true, child_execution_id: outcome.childExecutionId ?? 0 }
      : context,
    meta,
  });
  return drafts.map((draft, index) => ({ ...draft, reportSeq: index }));
}

function resultOf(actor: ExecutionActor, row: CommandRow, outcome: ReportedOutcome): EventResult {
  if (outcome.outcome === 'ok') {
    if (outcome.reference !== undefined) {
      return { status: 'completed', context: outcome.summary ?? {}, reference: outcome.reference };
    }
    const data = outcome.data ?? null;
    const stored = actor.store(data, row.stepName, row.commandId, actor.engine.limits.inlineMaxBytes);
    return stored === null
      ? { status: 'completed', context: { data } }
      : { status: 'completed', context: stored.summary, reference: stored.reference };
  }
  const error = errorOf(outcome);
  const failedTask: JsonMap = outcome.failedTask ? { failed_task: outcome.failedTask } : {};
  const data = outcome.data;
  if (data === undefined || data === null) return { status: 'failed', context: { error, ...failedTask } };
  const stored = actor.store(data, row.stepName, row.commandId, actor.engine.limits.inlineMaxBytes);
  return stored === null
    ? { status: 'failed', context: { error, data, ...failedTask } }
    : { status: 'failed', context: { ...stored.summary, error, ...failedTask }, reference: stored.reference };
}

function errorOf(outcome: ReportedOutcome): JsonMap {
  if (outcome.outcome === 'cancelled') {
    return { kind: 'tool_error', code: 'CANCELLED', message: 'the worker stopped the command', retryable: false };
  }
  return (
    outcome.error ?? { kind: 'unknown', code: null, message: 'the command failed without a reason', retryable: false }
  );
}

function messageOf(outcome: ReportedOutcome): string {
  const { message } = errorOf(outcome);
  return typeof message === 'string' && message !== '' ? message : 'the command failed without a reason';
}

// ------------------------------------------------------------------ late, stale and repeated

export interface Known {
  readonly row: CommandRow | null;
  /** Rows of the command that count, by event id. */
  readonly events: readonly LogEvent[];
  /** Rows of this very report. */
  readonly reported: readonly LogEvent[];
}

/** A report for a command that is closed, parked or has been granted again. `known` was read a moment ago. */
export function handleLate(
  actor: ExecutionActor,
  report: Report,
  outcome: ReportedOutcome,
  workerId: string,
  known: Known,
): Omit<ReportReceipt, 'reportId' | 'commandId' | 'attempt'> {
  const status = endsNow(actor) ?? actor.row.status;
  const answer = (result: ReportReceipt['result'], eventIds: readonly number[] = []) => ({
    result,
    eventIds,
    commandsGenerated: 0,
    executionStatus: status,
    error: null,
  });
  const { row } = known;
  if (row === null || row.executionId !== actor.executionId || report.attempt > row.attempt) return answer('unknown');
  if (known.reported.length > 0)
    return answer(
      'duplicate',
      known.reported.map((event) => event.eventId),
    );
  const isStale = report.attempt < row.attempt;
  if (!isStale && row.workerId !== workerId) return answer('unknown');
  const drafts = canonicalRows(actor, { ...row, startedAt: null }, report, outcome, workerId);
  if (isStale) {
    const rows = drafts.map((draft) =>
      actor.append({ ...draft, stale: true, closes: false, meta: { ...draft.meta, stale: true } }),
    );
    return answer(
      'stale',
      rows.map((event) => event.eventId),
    );
  }
  const fresh = drafts.filter((draft) => !known.events.some((event) => familyOf(event.type) === familyOf(draft.type)));
  if (fresh.length === 0 || known.events.some((event) => familyOf(event.type) === 'call')) {
    return answer(
      'duplicate',
      known.events
        .filter((event) => event.type !== 'command.issued' && event.type !== 'command.claimed')
        .map((event) => event.eventId),
    );
  }
  const rows = fresh.map((draft) => actor.append({ ...draft, closes: false, meta: { ...draft.meta, late: true } }));
  return answer(
    'late',
    rows.map((event) => event.eventId),
  );
}

/** Types of which a command has one row at most, whichever came first. */
export function familyOf(type: string): string {
  if (type === 'call.done' || type === 'call.error') return 'call';
  if (type === 'command.completed' || type === 'command.failed' || type === 'command.cancelled') return 'closing';
  return type;
}

/** Whether a parked or open command is known to the run at all. */
export function isOpenCommand(actor: ExecutionActor, commandId: number): boolean {
  return runOf(actor.state).open[commandId] !== undefined;
}

export function asMap(value: Json | undefined): JsonMap {
  return isMap(value) ? value : {};
}
