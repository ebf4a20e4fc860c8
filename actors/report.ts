/**
 * What a worker says of a command, as rows. A report of the present claim is written in its canonical form and takes its
 * turn (language 13.3); anything else is compared with what the log already holds: a repeat is dropped, an outrun claim
 * is kept as stale, work for something that has ended is kept as late (language 14.3, api 4.2).
 */
import { instantOf } from '../machines/command/instant.ts';
import { NO_CHILD, retryWaitOf } from '../machines/command/retry-wait.ts';
import { type EventDraft, type EventResult, type LogEvent, nodeIdOf } from '../machines/events.ts';
import type { StoredValue } from '../machines/execution/stage.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import type { Json, JsonMap } from '../machines/json.ts';
import { isMap } from '../machines/json.ts';
import type { ExecutionActor } from './execution-actor.ts';
import { endsStep, metaOf } from './grant.ts';
import type { CommandRow, ExecutionStatus } from './ports.ts';
import type { Report, ReportedOutcome, ReportReceipt } from './services.ts';

export type ReportAnswer = Omit<ReportReceipt, 'reportId' | 'commandId' | 'attempt'>;

/** What became of a report; `ask` means that the log has to be asked. */
export type Handling =
  | {
      readonly kind: 'accepted';
      readonly eventIds: readonly number[];
      readonly commandsGenerated: number;
      readonly status: ExecutionStatus;
      readonly child: number | null;
    }
  | { readonly kind: 'ask' }
  | { readonly kind: 'settled'; readonly answer: ReportAnswer };

export const UNKNOWN_REPORT: ReportAnswer = {
  result: 'unknown',
  eventIds: [],
  commandsGenerated: 0,
  executionStatus: null,
  error: null,
};

/**
 * Handles the report of a command that is open, held by this worker, and of which nothing was said before. Everything else
 * is judged by what the log says (`handleKnown`): this process may not be the only one that works on the execution.
 */
export function handleReport(
  actor: ExecutionActor,
  report: Report,
  outcome: ReportedOutcome,
  workerId: string,
): Handling {
  const row = actor.commands.get(report.commandId);
  if (row === undefined || !isHeldBy(row, report, workerId)) return { kind: 'ask' };
  const hasSpoken = row.attempt > 1 || row.startedAt !== null || row.parkedOn !== null || hasOutcome(actor, row);
  return hasSpoken ? { kind: 'ask' } : accept(actor, row, report, outcome, workerId, new Set());
}

function isHeldBy(row: CommandRow, report: Report, workerId: string): boolean {
  return row.status !== 'PENDING' && report.attempt === row.attempt && row.workerId === workerId;
}

function hasOutcome(actor: ExecutionActor, row: CommandRow): boolean {
  return (runOf(actor.state).open[row.commandId]?.outcome ?? null) !== null;
}

/** `said` are the families of rows the log already has; they are there once and stay (language 14.3). */
function accept(
  actor: ExecutionActor,
  row: CommandRow,
  report: Report,
  outcome: ReportedOutcome,
  workerId: string,
  said: ReadonlySet<string>,
): Handling {
  if (outcome.resume !== undefined) return acceptWait(actor, row, report, outcome, outcome.resume, workerId, said);
  const eventIds: number[] = [];
  let commandsGenerated = 0;
  let last: LogEvent | null = null;
  for (const draft of canonicalRows(actor, row, report, outcome, workerId)) {
    if (said.has(familyOf(draft.type))) continue;
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

/**
 * The next try lies ahead: the row keeps what it needs and nobody holds it (language 7.7). The chart knows nothing of
 * tries, so no turn is taken. Where nothing new may start, and where an outcome counts already, the last try was the end.
 */
function acceptWait(
  actor: ExecutionActor,
  row: CommandRow,
  report: Report,
  outcome: ReportedOutcome,
  resume: NonNullable<ReportedOutcome['resume']>,
  workerId: string,
  said: ReadonlySet<string>,
): Handling {
  if (runOf(actor.state).failing || hasOutcome(actor, row)) {
    const { resume: _, ...rest } = outcome;
    return accept(actor, row, report, { ...rest, outcome: 'error', error: outcome.error ?? GIVEN_UP }, workerId, said);
  }
  const deadline = actor.later(resume.timeoutSeconds);
  const due = actor.later(resume.afterSeconds);
  const at = due < deadline ? due : deadline;
  const wait = { at, attempt: row.attempt, deadline, state: resume.state, ctx: outcome.ctx };
  const events = canonicalRows(actor, row, report, outcome, workerId)
    .filter((draft) => draft.type === 'command.heartbeat' || !said.has(familyOf(draft.type)))
    .map((draft) =>
      actor.append(
        draft.type === 'command.heartbeat' ? { ...draft, context: { ...draft.context, resume_at: at } } : draft,
      ),
    );
  actor.change({
    ...row,
    status: 'RUNNING',
    startedAt: row.startedAt ?? actor.at,
    parkedOn: NO_CHILD,
    nextWakeAt: at,
    // The grant that follows is no sign of a worker that was lost.
    maxAttempts: row.maxAttempts + 1,
    context: { ...row.context, resume: wait },
    latestEventId: events.at(-1)?.eventId ?? row.latestEventId,
  });
  const eventIds = events.map((event) => event.eventId);
  return { kind: 'accepted', eventIds, commandsGenerated: 0, status: actor.row.status, child: null };
}

const GIVEN_UP: JsonMap = {
  kind: 'logic',
  code: 'RETRY_GIVEN_UP',
  message: 'no further try was made because the execution is failing',
  retryable: false,
};

/** The outcome of a parked command, said by the worker that parked it: its call row closes it (language 14.2). */
function acceptParked(
  actor: ExecutionActor,
  row: CommandRow,
  report: Report,
  outcome: ReportedOutcome,
  workerId: string,
): Handling {
  const drafts = canonicalRows(actor, row, report, outcome, workerId);
  const rows = drafts
    .filter(({ type }) => type.startsWith('call.') || type === 'step.exit')
    .map((draft) => actor.append({ ...draft, closes: draft.type !== 'step.exit' }));
  const [call] = rows;
  if (call === undefined) return { kind: 'ask' };
  const turn = actor.take(call);
  const ok = call.type === 'call.done';
  actor.change(actor.closed(row, ok ? 'COMPLETED' : 'FAILED', call, call.error));
  return {
    kind: 'accepted',
    eventIds: rows.map((event) => event.eventId),
    commandsGenerated: turn.issued.length,
    status: endsNow(actor) ?? actor.row.status,
    child: null,
  };
}

function closeRow(actor: ExecutionActor, row: CommandRow, outcome: ReportedOutcome, event: LogEvent): void {
  // A turn that ended the execution has closed all rows; this one is set to what really became of it.
  if (outcome.outcome === 'parked') {
    actor.park(row, event, parkedSeconds(actor, row));
    return;
  }
  // An outcome that was attached before counts more than this one (language 14.2).
  const { settled } = runOf(actor.state);
  const ok = settled?.commandId === row.commandId ? settled.ok : outcome.outcome === 'ok';
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
export function parkTimeoutSeconds(actor: ExecutionActor, row: CommandRow): number {
  const timeout = actor.plan.steps.get(row.stepName)?.step.tasks[0]?.timeout;
  const seconds = typeof timeout === 'string' ? Number(timeout) : timeout;
  return typeof seconds === 'number' && Number.isFinite(seconds) && seconds > 0 ? seconds : 3600;
}

/** Seconds a command may take in all, waits included (language 4.4). */
export function stepTimeoutSeconds(actor: ExecutionActor, row: CommandRow): number {
  return actor.plan.steps.get(row.stepName)?.step.timeoutSeconds ?? actor.engine.stepTimeoutSeconds;
}

/** What is left for the wait of a command that is being parked: for its child, or for all of the step. */
function parkedSeconds(actor: ExecutionActor, row: CommandRow): number {
  const spentMs = row.claimedAt === null ? 0 : Math.max(0, instantOf(actor.at) - instantOf(row.claimedAt));
  return Math.min(parkTimeoutSeconds(actor, row), Math.max(0, stepTimeoutSeconds(actor, row) - spentMs / 1000));
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
    nodeId: nodeIdOf(row.stepName, row.iterationIndex),
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
  const { resume } = outcome;
  if (row.startedAt === null) drafts.push({ ...node, type: 'command.started', status: 'running', context, meta });
  if (resume !== undefined) {
    const { afterSeconds, state } = resume;
    const waits = { ...context, retry_after_seconds: afterSeconds, resume: state };
    drafts.push({ ...node, type: 'command.heartbeat', status: 'running', duration, context: waits, meta });
    return drafts.map((draft, index) => ({ ...draft, reportSeq: index }));
  }
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
    if (endsStep(row)) {
      drafts.push({
        ...node,
        type: 'step.exit',
        nodeType: 'step',
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
    const stored = storedOf(actor, row, outcome);
    return stored === null
      ? { status: 'completed', context: { data: outcome.data ?? null } }
      : { status: 'completed', context: stored.summary, reference: stored.reference };
  }
  const error = errorOf(outcome);
  const failedTask: JsonMap = outcome.failedTask ? { failed_task: outcome.failedTask } : {};
  const stored = storedOf(actor, row, outcome);
  if (stored !== null) {
    return { status: 'failed', context: { ...stored.summary, error, ...failedTask }, reference: stored.reference };
  }
  const { data } = outcome;
  const told: JsonMap = data === undefined || data === null ? {} : { data };
  return { status: 'failed', context: { error, ...told, ...failedTask } };
}

/** Where the data of an outcome is stored apart: by the worker, or here, where it is too large for the log. */
function storedOf(actor: ExecutionActor, row: CommandRow, outcome: ReportedOutcome): StoredValue | null {
  const { reference, summary, data } = outcome;
  if (reference !== undefined) return { reference, summary: summary ?? {} };
  return actor.store(data ?? null, row.stepName, row.commandId, actor.engine.limits.inlineMaxBytes);
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

/** The execution has gone on since the log was asked about the command: it has to be asked again. */
export function isBehind(actor: ExecutionActor, { row, events }: Known): boolean {
  if (row === null || row.completedAt !== null || row.executionId !== actor.executionId) return false;
  const open = actor.commands.get(row.commandId);
  if (open === undefined || open.attempt !== row.attempt) return true;
  if (row.startedAt === null && open.startedAt !== null) return true;
  return hasOutcome(actor, open) && !events.some((event) => familyOf(event.type) === 'call');
}

/**
 * Rows of this command or report came after the log was looked at, or may have: a repeat that another process wrote
 * meanwhile changes no row of the command, so only the log's position tells.
 */
export function hasMovedSince(
  actor: ExecutionActor,
  seenThrough: number,
  { commandId, reportId }: { readonly commandId: number | null; readonly reportId: string | null },
): boolean {
  const since = actor.writtenSince(seenThrough);
  return (
    since === null ||
    since.some(
      (each) =>
        (commandId !== null && each.commandId === commandId) || (reportId !== null && each.reportId === reportId),
    )
  );
}

/** Any report, compared with what the log says of its command. `known` was read a moment ago. */
export function handleKnown(
  actor: ExecutionActor,
  report: Report,
  outcome: ReportedOutcome,
  workerId: string,
  known: Known,
): Handling {
  const status = endsNow(actor) ?? actor.row.status;
  const answer = (result: ReportReceipt['result'], events: readonly LogEvent[]): Handling => {
    const eventIds = events.map((event) => event.eventId);
    return { kind: 'settled', answer: { ...UNKNOWN_REPORT, result, eventIds, executionStatus: status } };
  };
  const { row } = known;
  if (row === null || row.executionId !== actor.executionId) return answer('unknown', []);
  if (known.reported.length > 0) return answer('duplicate', known.reported);

  if (isBehind(actor, known)) return { kind: 'ask' };
  const open = actor.commands.get(row.commandId);
  if (open !== undefined && isHeldBy(open, report, workerId)) {
    if (open.parkedOn !== null && retryWaitOf(open) === null && outcome.outcome !== 'parked')
      return acceptParked(actor, open, report, outcome, workerId);
    if (open.parkedOn === null) {
      const said = new Set(known.events.map((event) => familyOf(event.type)));
      return accept(actor, open, report, outcome, workerId, said);
    }
  }
  if (report.attempt > row.attempt) return answer('unknown', []);
  const drafts = canonicalRows(actor, { ...row, startedAt: null }, report, outcome, workerId);
  if (report.attempt < row.attempt) {
    const stale = drafts.map((draft) =>
      actor.append({ ...draft, stale: true, closes: false, meta: { ...draft.meta, stale: true } }),
    );
    return answer('stale', stale);
  }
  if (row.workerId !== workerId) return answer('unknown', []);
  const fresh = drafts.filter((draft) => !known.events.some((event) => familyOf(event.type) === familyOf(draft.type)));
  if (fresh.length === 0 || known.events.some((event) => familyOf(event.type) === 'call')) {
    return answer(
      'duplicate',
      known.events.filter((event) => event.type !== 'command.issued' && event.type !== 'command.claimed'),
    );
  }
  return answer(
    'late',
    fresh.map((draft) => actor.append({ ...draft, closes: false, meta: { ...draft.meta, late: true } })),
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
