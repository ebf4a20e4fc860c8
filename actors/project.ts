/** What follows from a turn for the rows: the head of the execution, and all writings of a flush as one transaction. */
import { type LogEvent, TERMINAL_TYPES } from '../machines/events.ts';
import { EXECUTION_MACHINE_VERSION } from '../machines/execution/machine.ts';
import { progressOf } from '../machines/execution/progress.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import type { Json, JsonMap } from '../machines/json.ts';
import { isMap } from '../machines/json.ts';
import type { ExecutionActor, Writing } from './execution-actor.ts';
import type {
  BatchJob,
  BatchMove,
  BatchRow,
  CommandChange,
  CommandRow,
  EventRow,
  ExecutionRow,
  Flush,
  HeadChange,
  ResultRow,
  StoredSnapshot,
} from './ports.ts';

/** Turns after which a snapshot pays: a cold start then folds at most about this many turns. */
const SNAPSHOT_EVERY = 64;

/** Brings the head up to date with what was written; idempotent within a flush. */
export function projectHead(actor: ExecutionActor): void {
  const { writing } = actor;
  if (writing === null) return;
  const wasRunning = actor.row.status === 'running';
  const terminal = wasRunning ? (terminalOf(writing) ?? undefined) : undefined;
  // An ended run handles nothing any more.
  if (!wasRunning || terminal !== undefined) actor.inbox = [];
  const last = writing.events.at(-1);
  const moved: ExecutionRow = {
    ...actor.row,
    handledThrough: (actor.inbox[0]?.eventId ?? actor.row.lastEventId + 1) - 1,
    ...(last === undefined ? {} : { lastEventType: last.type, lastNodeName: last.nodeName }),
  };
  if (!wasRunning) {
    actor.row = moved;
    return;
  }
  const run = runOf(actor.state);
  const ended = terminal !== undefined;
  if (terminal !== undefined) actor.closeAll(terminal);
  const progress = progressOf(run, actor.plan.graph, actor.touched, ended);
  actor.row = {
    ...moved,
    progress: progress.percent,
    progressDetail: progress.detail,
    currentStep: run.active.at(-1) ?? run.lastEntered,
    openCommands: actor.commands.size,
    nextWakeAt: null,
    ...(terminal === undefined ? {} : endOf(terminal)),
  };
}

/** The event that ends the run with this flush. */
function terminalOf(writing: Writing): LogEvent | null {
  return writing.terminal ?? writing.events.find((event) => TERMINAL_TYPES.has(event.type)) ?? null;
}

function endOf(
  event: LogEvent,
): Pick<ExecutionRow, 'status' | 'result' | 'resultRef' | 'error' | 'errorDetail' | 'endTime'> {
  const { context } = event;
  if (event.type === 'execution.cancelled') {
    return {
      status: 'cancelled',
      result: null,
      resultRef: null,
      error: text(context, 'reason') ?? 'cancelled',
      errorDetail: null,
      endTime: event.at,
    };
  }
  const failed = event.type === 'playbook.failed';
  const detail = context['error_detail'];
  return {
    status: failed ? 'failed' : 'completed',
    result: failed ? null : (context['result'] ?? null),
    resultRef: failed ? null : text(context, 'result_ref'),
    error: failed ? (text(context, 'error') ?? event.error ?? 'The execution failed') : null,
    errorDetail: isMap(detail) ? detail : null,
    endTime: event.at,
  };
}

function text(context: JsonMap, key: string): string | null {
  const value = context[key];
  return typeof value === 'string' && value !== '' ? value : null;
}

/** All writings of these actors as one transaction. */
export function flushOf(actors: readonly ExecutionActor[]): Flush {
  const started: ExecutionRow[] = [];
  const events: EventRow[] = [];
  const issued: CommandRow[] = [];
  const commands: CommandChange[] = [];
  const heads: HeadChange[] = [];
  const results: ResultRow[] = [];
  const accepted: BatchRow[] = [];
  const moved: BatchMove[] = [];
  const jobs: BatchJob[] = [];
  for (const actor of actors) {
    const { writing } = actor;
    if (writing === null) continue;
    events.push(...writing.events);
    issued.push(...writing.issued.values());
    for (const row of writing.changed.values()) commands.push(changeOf(row, writing.recontexted.has(row.commandId)));
    results.push(...writing.results);
    accepted.push(...writing.batches.accepted);
    moved.push(...writing.batches.moved);
    jobs.push(...writing.batches.jobs);
    if (actor.isStored) heads.push(headOf(actor, writing));
    else started.push(actor.row);
  }
  return {
    locks: actors.map((actor) => actor.executionId).sort((a, b) => a - b),
    started,
    events,
    issued,
    commands,
    heads,
    results,
    batches: { accepted, moved, jobs },
  };
}

function changeOf(row: CommandRow, hasNewContext: boolean): CommandChange {
  const { executionId, commandId, status, attempt, maxAttempts, workerId, claimId, claimedAt, startedAt } = row;
  const { completedAt, parkedOn, nextWakeAt, error, latestEventId, context } = row;
  return {
    ...{ executionId, commandId, status, attempt, maxAttempts, workerId, claimId, claimedAt, startedAt },
    ...{ completedAt, parkedOn, nextWakeAt, error, latestEventId },
    // A context may be large; the row keeps the one it has.
    ...(hasNewContext ? { context } : {}),
  };
}

function headOf(actor: ExecutionActor, { expectedLastEventId, expectedHandledThrough }: Writing): HeadChange {
  const { row } = actor;
  const endsNow = row.endTime !== null && actor.writing !== null && terminalOf(actor.writing) !== null;
  const isLate = row.status !== 'running' && !endsNow;
  return {
    executionId: row.executionId,
    expectedLastEventId,
    expectedHandledThrough,
    lastEventId: row.lastEventId,
    handledThrough: row.handledThrough,
    lastEventType: row.lastEventType,
    lastNodeName: row.lastNodeName,
    currentStep: row.currentStep,
    progress: row.progress,
    openCommands: row.openCommands,
    nextWakeAt: row.nextWakeAt,
    late: isLate,
    end:
      endsNow && row.endTime !== null && row.status !== 'running'
        ? {
            status: row.status,
            result: row.result,
            resultRef: row.resultRef,
            error: row.error,
            errorDetail: row.errorDetail,
            progressDetail: row.progressDetail ?? {},
            endTime: row.endTime,
          }
        : null,
    snapshot:
      isLate || endsNow || actor.inbox.length > 0 || actor.turnsSinceSnapshot < SNAPSHOT_EVERY
        ? null
        : snapshotOf(actor),
  };
}

function snapshotOf(actor: ExecutionActor): StoredSnapshot {
  return {
    throughEventId: actor.row.lastEventId,
    machineVersion: EXECUTION_MACHINE_VERSION,
    // Chart values are strings or maps of them; a Run is JSON (machines/execution/run.ts).
    value: actor.state.snapshot.value as Json,
    context: { run: runOf(actor.state) as unknown as Json },
  };
}
