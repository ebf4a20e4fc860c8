/**
 * What the actors need from the world, as narrow as it can be. PostgreSQL and memory implement `Store` and pass one
 * conformance suite. A flush is one call: the store locks, appends and commits it, or changes nothing and throws.
 *
 * Concurrency is optimistic: state is read without a lock, and `commit` fails with StaleError when another process has
 * appended to one of the executions meanwhile (the primary key of the event row is taken, or the head has moved).
 */

import type { EventStatus, LogEvent } from '../machines/events.ts';
import type { Json, JsonMap } from '../machines/json.ts';
import type { AuditRow } from './audit.ts';
import type { Fence } from './lease.ts';

/** The database's clock: every instant that decides anything comes from here. Milliseconds since the epoch. */
export interface Clock {
  now(): number;
}

/** Ids below 2^53 from blocks; growing with time only roughly. */
export interface Ids {
  next(): number;
  /** Makes sure that `count` calls of `next` can be answered without waiting. */
  reserve(count: number): Promise<void>;
}

/** A constant sentence and its values. */
export interface Log {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** Counters and durations; names as in api 7.1. */
export interface Meter {
  count(name: string, labels?: Readonly<Record<string, string>>, by?: number): void;
  observe(name: string, value: number, labels?: Readonly<Record<string, string>>): void;
  gauge(name: string, value: number, labels?: Readonly<Record<string, string>>): void;
}

/** A finished piece of work in a trace (api 7.3). Attributes are ids, names, counts and statuses; never a payload. */
export interface Span {
  readonly name: string;
  readonly kind?: 'internal' | 'server' | 'client';
  /** 32 and 16 hexadecimal digits. */
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | null;
  /** Milliseconds since the epoch; fractions count. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly events?: readonly {
    readonly name: string;
    readonly atMs: number;
    readonly attributes?: Readonly<Record<string, string | number | boolean>>;
  }[];
  readonly failed?: boolean;
}

/** Where spans go. Nothing but `isOn` is asked while it is off, so that a trace nobody wants costs a look at a flag. */
export interface Tracer {
  readonly isOn: boolean;
  /** Milliseconds since the epoch, monotonic within the process. */
  now(): number;
  newTraceId(): string;
  newSpanId(): string;
  /** Hexadecimal digits that follow from the text. */
  digest(text: string): string;
  /** Whether a trace that nobody outside decided about is recorded. */
  isSampled(traceId: string): boolean;
  /** Never blocks and never throws; what there is no room for is dropped and counted. */
  record(span: Span): void;
}

export const NO_TRACER: Tracer = {
  isOn: false,
  now: () => 0,
  newTraceId: () => '',
  newSpanId: () => '',
  digest: () => '',
  isSampled: () => false,
  record: () => {},
};

export type ExecutionStatus = 'running' | 'completed' | 'failed' | 'cancelled';
export type CommandStatus = 'PENDING' | 'CLAIMED' | 'RUNNING' | 'COMPLETED' | 'FAILED' | 'CANCELLED';

/** A row of `core.execution` without its snapshot. Instants are ISO 8601 UTC. */
export interface ExecutionRow {
  readonly executionId: number;
  readonly rootExecutionId: number;
  readonly parentExecutionId: number | null;
  readonly parentCommandId: number | null;
  readonly parentEventId: number | null;
  readonly rerunOf: number | null;
  readonly catalogId: number;
  readonly path: string;
  readonly version: number;
  readonly kind: string;
  readonly pool: string;
  readonly priority: number;
  readonly status: ExecutionStatus;
  readonly workload: JsonMap;
  readonly result: Json;
  readonly resultRef: string | null;
  readonly error: string | null;
  readonly errorDetail: JsonMap | null;
  readonly progressDetail: JsonMap | null;
  readonly currentStep: string | null;
  readonly progress: number;
  readonly lastEventId: number;
  readonly handledThrough: number;
  readonly lastEventType: string;
  readonly lastNodeName: string;
  readonly engineVersion: number;
  readonly machineVersion: number;
  readonly openCommands: number;
  readonly nextWakeAt: string | null;
  readonly startTime: string;
  readonly endTime: string | null;
  readonly idempotencyKey: string | null;
  /** SHA-256 of the canonical request, hex. */
  readonly requestHash: string | null;
  readonly labels: JsonMap;
  readonly trace: string | null;
  readonly createdBy: string | null;
}

/** A row of `core.command`. */
export interface CommandRow {
  readonly executionId: number;
  readonly commandId: number;
  /** Number of its `command.issued`. */
  readonly eventId: number;
  readonly catalogId: number;
  /** `<step>@<activation>[#<iteration>][/<phase>.<frame>.<row>]` */
  readonly commandKey: string;
  readonly stepName: string;
  readonly toolKind: string;
  readonly pool: string;
  readonly activation: number;
  readonly iterationIndex: number | null;
  readonly status: CommandStatus;
  /** Grants so far; the fencing token of the present claim. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly priority: number;
  readonly workerId: string | null;
  readonly claimId: string | null;
  readonly claimedAt: string | null;
  readonly startedAt: string | null;
  readonly heartbeatAt: string | null;
  readonly completedAt: string | null;
  /** Child execution a parked command waits for; 0: none, it waits for its next try (machines/command/retry-wait.ts). */
  readonly parkedOn: number | null;
  readonly nextWakeAt: string | null;
  readonly republishedAt: string | null;
  readonly republishCount: number;
  /** `{render_context, iteration?}`; the tool configuration is the playbook version's. */
  readonly context: JsonMap;
  readonly contextRef: string | null;
  readonly error: string | null;
  readonly latestEventId: number;
  readonly meta: JsonMap;
  readonly createdAt: string;
}

export interface EventRow extends LogEvent {
  readonly executionId: number;
  readonly catalogId: number;
}

/** New values of a head. `end` is set by the flush that carries the terminal event and by no other. */
export interface HeadChange {
  readonly executionId: number;
  readonly expectedLastEventId: number;
  /** Turns of filed events may write nothing but rows: then only this tells that somebody else took them. */
  readonly expectedHandledThrough: number;
  readonly lastEventId: number;
  readonly handledThrough: number;
  readonly lastEventType: string;
  readonly lastNodeName: string;
  readonly currentStep: string | null;
  readonly progress: number;
  readonly openCommands: number;
  readonly nextWakeAt: string | null;
  /** A late event on an ended execution: only `lastEventId` (and `handledThrough`) move. */
  readonly late: boolean;
  readonly end: {
    readonly status: Exclude<ExecutionStatus, 'running'>;
    readonly result: Json;
    readonly resultRef: string | null;
    readonly error: string | null;
    readonly errorDetail: JsonMap | null;
    readonly progressDetail: JsonMap;
    readonly endTime: string;
  } | null;
  /** Written when it pays; null leaves the stored one. `throughEventId` is the log position it stands for. */
  readonly snapshot: StoredSnapshot | null;
}

/** A cache of the log: chart value and context after every event up to `throughEventId` was folded. */
export interface StoredSnapshot {
  readonly throughEventId: number;
  readonly machineVersion: number;
  readonly value: Json;
  readonly context: JsonMap;
}

/** The mutable columns of a command, all of them (a context only when it has changed); written where (execution, command) match. */
export type CommandChange = Pick<
  CommandRow,
  | 'executionId'
  | 'commandId'
  | 'status'
  | 'attempt'
  | 'maxAttempts'
  | 'workerId'
  | 'claimId'
  | 'claimedAt'
  | 'startedAt'
  | 'completedAt'
  | 'parkedOn'
  | 'nextWakeAt'
  | 'error'
  | 'latestEventId'
> & {
  /** Absent: it stays as it is. */
  readonly context?: JsonMap;
};

/** A payload kept apart from the log (language 10.3). `data` is its JSON text. */
export interface ResultRow {
  readonly executionId: number;
  readonly resultId: number;
  readonly ref: string;
  readonly name: string;
  readonly commandId: number | null;
  readonly scope: string;
  readonly store: string;
  readonly data: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly mediaType: string;
  readonly summary: JsonMap | null;
  readonly expiresAt: string | null;
}

export type BatchState = 'accepted' | 'processing' | 'completed' | 'failed';

/** A row of `core.batch_request`: what was accepted for an execution, and how far its handling is. */
export interface BatchRow {
  readonly requestId: number;
  readonly executionId: number;
  readonly idempotencyKey: string | null;
  /** SHA-256 of the canonical body, hex. */
  readonly bodyHash: string;
  readonly state: BatchState;
  /** Set exactly when the state is `failed`. */
  readonly errorCode: string | null;
  readonly message: string | null;
  /** One per item, in order; a repeated item names its first occurrence. */
  readonly eventIds: readonly number[];
  readonly eventCount: number;
  readonly commandsGenerated: number;
  readonly workerId: string | null;
  /** End of the present attempt at processing; null before the first. */
  readonly deadlineAt: string | null;
  readonly queueWaitMs: number | null;
  readonly timings: JsonMap | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** The mutable columns of a batch, all of them; refused (`batch_moved`) unless its state still is `from`. */
export type BatchMove = Pick<
  BatchRow,
  | 'requestId'
  | 'executionId'
  | 'state'
  | 'errorCode'
  | 'message'
  | 'commandsGenerated'
  | 'deadlineAt'
  | 'queueWaitMs'
  | 'timings'
> & {
  readonly from: BatchState;
  /** With the state it tells which time round this is: a batch that failed is taken up again. */
  readonly fromDeadlineAt: string | null;
};

/** What the queue carries: enough to find the batch. */
export interface BatchJob {
  readonly requestId: number;
  readonly executionId: number;
}

export interface BatchWrites {
  readonly accepted: readonly BatchRow[];
  readonly moved: readonly BatchMove[];
  /** Enqueued in the same transaction. */
  readonly jobs: readonly BatchJob[];
}

/** One transaction. Locks are taken in the given (ascending) order before anything is written. */
export interface Flush {
  readonly locks: readonly number[];
  /** Leases under which some of this was decided; one that is lost refuses the whole flush (LeaseLostError). */
  readonly fences?: readonly Fence[];
  readonly started: readonly ExecutionRow[];
  readonly events: readonly EventRow[];
  readonly issued: readonly CommandRow[];
  readonly commands: readonly CommandChange[];
  readonly heads: readonly HeadChange[];
  readonly results: readonly ResultRow[];
  readonly batches: BatchWrites;
  /** What people did to these executions (api 8.5). */
  readonly audits?: readonly AuditRow[];
}

/** Parts of a commit, for those who publish how long things took: locks, events, command rows, heads, the commit itself. */
export type CommitPhase = 'lock' | 'append' | 'issue' | 'save' | 'commit';

export interface StoredExecution {
  readonly row: ExecutionRow;
  readonly snapshot: StoredSnapshot | null;
  /** Events after the snapshot (all of them when there is none), by event id. */
  readonly tail: readonly LogEvent[];
  /** Rows of open commands (PENDING, CLAIMED, RUNNING). */
  readonly openCommands: readonly CommandRow[];
}

export interface ParkedCommand {
  readonly executionId: number;
  readonly commandId: number;
  readonly childExecutionId: number;
}

/** A parked command and the moment at which its wait is over, whatever it waits for. */
export interface ParkedWait extends ParkedCommand {
  readonly nextWakeAt: string;
}

/** A child whose end is still owed. */
export interface AbandonedChild {
  readonly executionId: number;
  readonly parentExecutionId: number;
}

/** A claim as the store has it: heartbeats are written past the executions, so no row in memory knows the last one. */
export type StoredHold = Pick<CommandRow, 'executionId' | 'attempt' | 'workerId' | 'heartbeatAt'>;

/** "There may be something to claim": enough to choose by, nothing to decide by. */
export interface CommandHint {
  readonly executionId: number;
  readonly commandId: number;
  readonly pool: string;
  readonly priority: number;
  readonly toolKind: string;
  readonly stepName: string;
  /** Grants so far, and how often it was announced again: with the id they tell one announcement from the next. */
  readonly attempt: number;
  readonly republishCount: number;
  /** `traceparent` of the command's span, where there is one. */
  readonly trace: string | null;
  /** Its next try is due; whoever still thinks that somebody works on it is behind. */
  readonly retry?: boolean;
  /** It is held by somebody who does not seem to know: to be told again. */
  readonly again?: boolean;
}

export interface Store {
  /** Commits a flush. Throws StaleError or LeaseLostError (nothing written), UnavailableError (outcome unknown) or what the database refused. */
  commit(flush: Flush, onPhase?: (phase: CommitPhase, ms: number) => void): Promise<void>;
  load(executionIds: readonly number[]): Promise<ReadonlyMap<number, StoredExecution>>;
  /** Chosen rows of one log, by event id. */
  events(executionId: number, eventIds: readonly number[]): Promise<readonly LogEvent[]>;
  /** Rows of one loop activation that say how an iteration ended (its call, or without one its closing row), by iteration index; not stale. */
  iterations(executionId: number, step: string, activation: number): Promise<readonly LogEvent[]>;
  /** Rows already stored for these report ids. */
  reported(executionId: number, reportIds: readonly string[]): Promise<readonly LogEvent[]>;
  /** Non-stale rows of a command, by event id. */
  commandEvents(executionId: number, commandId: number): Promise<readonly LogEvent[]>;
  /** The event that ended it, with its values in the order of their authors; null while it runs. */
  ending(executionId: number): Promise<LogEvent | null>;
  command(commandId: number): Promise<CommandRow | null>;
  commandsClaimedBy(claimId: string, workerId: string): Promise<readonly CommandRow[]>;
  /** PENDING commands of these pools, best first (priority, then age). */
  pending(pools: readonly string[], limit: number): Promise<readonly CommandHint[]>;
  /** Open commands whose `next_wake_at` has passed, claims before PENDING, oldest first; none that waits for a child. */
  overdue(limit: number): Promise<readonly CommandHint[]>;
  /** Open commands this worker works on; parked ones are nobody's work. */
  heldBy(workerId: string): Promise<readonly CommandHint[]>;
  /** Of these commands those that a worker works on, with what the store knows of their claim; by command. */
  holds(commandIds: readonly number[]): Promise<ReadonlyMap<number, StoredHold>>;
  /** Of these commands those that may be claimed: PENDING, or due to be looked at again and waiting for no child. */
  standing(commandIds: readonly number[]): Promise<ReadonlySet<number>>;
  /** Earliest `next_wake_at` of any open command (parked ones included), or null. */
  nextWakeAt(): Promise<string | null>;
  /** Parked commands that wait for one of these executions, or (no argument) whose child has already ended. */
  parked(childIds?: readonly number[]): Promise<readonly ParkedCommand[]>;
  /** Parked commands whose time is over within so many seconds, or was already; soonest first. */
  parkedUntil(seconds: number, limit: number): Promise<readonly ParkedWait[]>;
  /** Moves `next_wake_at` (and counts a republish when asked) of open commands; never a status. */
  postpone(
    commands: readonly { executionId: number; commandId: number; nextWakeAt: string; republished: boolean }[],
  ): Promise<void>;
  /** Refreshes the hold age of commands still worked on: `heartbeat_at` and `next_wake_at`, where the attempt matches. */
  touch(
    holds: readonly { executionId: number; commandId: number; attempt: number; nextWakeAt: string }[],
  ): Promise<void>;
  execution(executionId: number): Promise<ExecutionRow | null>;
  /** Those of these that have ended. */
  ended(executionIds: readonly number[]): Promise<readonly ExecutionRow[]>;
  byIdempotencyKey(path: string, key: string): Promise<ExecutionRow | null>;
  /** How many commands the first turn of an execution issued. */
  issuedAtStart(executionId: number): Promise<number>;
  /** Running executions below this one (children, grandchildren …), parents first. */
  runningDescendants(executionId: number): Promise<readonly number[]>;
  /**
   * Running children that nobody waits for any more since at least so many seconds: their parent is failing or failed and gave
   * the wait up, or was itself ended by a cascade. By execution.
   */
  abandoned(seconds: number, limit: number): Promise<readonly AbandonedChild[]>;
  /** Running executions older than the instant, oldest first. */
  runningSince(before: string, limit: number): Promise<readonly number[]>;
  /** Executions with events that no turn has handled yet (`handled_through < last_event_id`, running). */
  withInbox(limit: number): Promise<readonly number[]>;
  payload(ref: string): Promise<Json | undefined>;
}

/** What intake has to know of an execution's log to file a batch, read in one look. */
export interface FiledBefore {
  readonly commands: readonly CommandRow[];
  /** Claims and reports of those commands that are not stale, by event id. */
  readonly events: readonly LogEvent[];
  /** Rows of those report ids. */
  readonly reported: readonly LogEvent[];
  /** The log's last event at that moment. */
  readonly lastEventId: number;
}

/** Rows of `core.batch_request`; written by `Store.commit` only. */
export interface BatchStore {
  find(requestIds: readonly number[]): Promise<readonly BatchRow[]>;
  byKey(executionId: number, key: string): Promise<BatchRow | null>;
  /** Accepted and not finished. */
  depth(): Promise<number>;
  /** Unfinished batches of one execution, in order of their markers. */
  openOf(executionId: number): Promise<readonly BatchRow[]>;
  /** Accepted ones that have waited for `seconds`, and those whose deadline passed as long ago; oldest first. */
  stranded(seconds: number, limit: number): Promise<readonly BatchJob[]>;
  filedBefore(executionId: number, commandIds: readonly number[], reportIds: readonly string[]): Promise<FiledBefore>;
  /**
   * Commands issued because of those of these events that the batch brought, and the cause of the terminal event (null
   * while there is none). What the batch only repeated had its effect before.
   */
  effectsOf(
    executionId: number,
    requestId: number,
    eventIds: readonly number[],
  ): Promise<{ issued: number; endedBy: number | null }>;
  /** Processors of all processes that said so lately. */
  liveProcessors(): Promise<number>;
  announceProcessor(holder: string, seconds: number): Promise<void>;
  withdrawProcessor(holder: string): Promise<void>;
}

/** The queue of batches to process. Jobs come in by `Store.commit`; one may come twice. */
export interface BatchJobs {
  /** Calls `handle` for each job, `concurrency` at a time; one that rejects is delivered again later. */
  work(concurrency: number, handle: (job: BatchJob) => Promise<void>): Promise<void>;
  /** Puts jobs in outside of a commit: what was stranded. */
  enqueue(jobs: readonly BatchJob[]): Promise<void>;
  /** There may be a job. */
  wake(): void;
  state(): 'ok' | 'degraded' | 'down';
}

/** Another process appended to these executions; reload and try again. */
export class StaleError extends Error {
  override readonly name = 'StaleError';
  readonly executionIds: readonly number[];
  constructor(executionIds: readonly number[], options?: ErrorOptions) {
    super('the execution changed meanwhile', options);
    this.executionIds = executionIds;
  }
}

/** An execution with this idempotency key exists already at that path; nothing was written. */
export class DuplicateKeyError extends Error {
  override readonly name = 'DuplicateKeyError';
  /** The execution of the flush that was refused; null when it cannot be told. */
  readonly executionId: number | null;
  constructor(executionId: number | null, options?: ErrorOptions) {
    super('an execution with this idempotency key exists', options);
    this.executionId = executionId;
  }
}

/** A write of one execution that will not succeed as it is; nothing of the flush was written. */
export class RefusedWriteError extends Error {
  override readonly name = 'RefusedWriteError';
  /** The batch's key is taken; the batch is not in the state it was read in; its job was not accepted. */
  readonly reason: 'batch_key' | 'batch_moved' | 'enqueue';
  constructor(reason: RefusedWriteError['reason'], options?: ErrorOptions) {
    super('a write was refused', options);
    this.reason = reason;
  }
}

/** The database did not answer, or the answer was lost: the outcome is unknown. */
export class UnavailableError extends Error {
  override readonly name = 'UnavailableError';
  readonly reason: 'db_unavailable' | 'pool_saturated';
  constructor(reason: 'db_unavailable' | 'pool_saturated' = 'db_unavailable', options?: ErrorOptions) {
    super('the database is not available', options);
    this.reason = reason;
  }
}

/** How far an execution is known to have come. */
export type Seen = Pick<ExecutionRow, 'executionId' | 'lastEventId'>;

export type BusTopic = 'executions' | 'batches' | 'workers' | 'control' | `commands.${string}`;

/** Hints between processes. Nothing depends on their arrival, order or number. */
export interface Bus {
  publish(topic: BusTopic, hints: readonly JsonMap[]): void;
  subscribe(listener: (topic: BusTopic, hints: readonly JsonMap[]) => void): () => void;
  state(): 'ok' | 'degraded' | 'down';
  close(): Promise<void>;
}

export type { EventStatus };
