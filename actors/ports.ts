/**
 * What the actors need from the world, as narrow as it can be. PostgreSQL and memory implement `Store` and pass one
 * conformance suite. A flush is one call: the store locks, appends and commits it, or changes nothing and throws.
 *
 * Concurrency is optimistic: state is read without a lock, and `commit` fails with StaleError when another process has
 * appended to one of the executions meanwhile (the primary key of the event row is taken, or the head has moved).
 */
import type { EventStatus, LogEvent } from '../machines/events.ts';
import type { Json, JsonMap } from '../machines/json.ts';

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
  /** Child execution a parked command waits for. */
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

/** The mutable columns of a command, all of them; written where (execution, command) match. */
export type CommandChange = Pick<
  CommandRow,
  | 'executionId'
  | 'commandId'
  | 'status'
  | 'attempt'
  | 'workerId'
  | 'claimId'
  | 'claimedAt'
  | 'startedAt'
  | 'completedAt'
  | 'parkedOn'
  | 'nextWakeAt'
  | 'error'
  | 'latestEventId'
>;

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

/** One transaction. Locks are taken in the given (ascending) order before anything is written. */
export interface Flush {
  readonly locks: readonly number[];
  readonly started: readonly ExecutionRow[];
  readonly events: readonly EventRow[];
  readonly issued: readonly CommandRow[];
  readonly commands: readonly CommandChange[];
  readonly heads: readonly HeadChange[];
  readonly results: readonly ResultRow[];
}

export interface StoredExecution {
  readonly row: ExecutionRow;
  readonly snapshot: StoredSnapshot | null;
  /** Events after the snapshot (all of them when there is none), by event id. */
  readonly tail: readonly LogEvent[];
  /** Rows of open commands (PENDING, CLAIMED, RUNNING). */
  readonly openCommands: readonly CommandRow[];
}

/** "There may be something to claim": enough to choose by, nothing to decide by. */
export interface CommandHint {
  readonly executionId: number;
  readonly commandId: number;
  readonly pool: string;
  readonly priority: number;
  readonly toolKind: string;
}

export interface Store {
  /** Commits a flush. Throws StaleError (nothing written), UnavailableError (outcome unknown) or what the database refused. */
  commit(flush: Flush): Promise<void>;
  load(executionIds: readonly number[]): Promise<ReadonlyMap<number, StoredExecution>>;
  /** Chosen rows of one log, by event id. */
  events(executionId: number, eventIds: readonly number[]): Promise<readonly LogEvent[]>;
  /** `call.done`/`call.error` rows of one loop activation that closed an iteration, by iteration index; not stale. */
  iterations(executionId: number, step: string, activation: number): Promise<readonly LogEvent[]>;
  /** Rows already stored for these report ids. */
  reported(executionId: number, reportIds: readonly string[]): Promise<readonly LogEvent[]>;
  /** Non-stale rows of a command, by event id. */
  commandEvents(executionId: number, commandId: number): Promise<readonly LogEvent[]>;
  command(commandId: number): Promise<CommandRow | null>;
  commandsClaimedBy(claimId: string, workerId: string): Promise<readonly CommandRow[]>;
  /** PENDING commands of these pools, best first (priority, then age). */
  pending(pools: readonly string[], limit: number): Promise<readonly CommandHint[]>;
  /** Open commands whose `next_wake_at` has passed, claims before PENDING, oldest first; parked ones excluded. */
  overdue(limit: number): Promise<readonly CommandHint[]>;
  /** Open commands this worker works on; parked ones are nobody's work. */
  heldBy(workerId: string): Promise<readonly CommandHint[]>;
  /** Earliest `next_wake_at` of any open command (parked ones included), or null. */
  nextWakeAt(): Promise<string | null>;
  /** Parked commands that wait for one of these executions, or (no argument) whose child has already ended. */
  parked(
    childIds?: readonly number[],
  ): Promise<readonly { executionId: number; commandId: number; childExecutionId: number }[]>;
  /** Parked commands whose time-out has passed. */
  parkedOverdue(
    limit: number,
  ): Promise<readonly { executionId: number; commandId: number; childExecutionId: number }[]>;
  /** Moves `next_wake_at` (and counts a republish when asked) of open commands; never a status. */
  postpone(
    commands: readonly { executionId: number; commandId: number; nextWakeAt: string; republished: boolean }[],
  ): Promise<void>;
  /** Refreshes the hold age of commands still worked on: `heartbeat_at` and `next_wake_at`, where the attempt matches. */
  touch(
    holds: readonly { executionId: number; commandId: number; attempt: number; nextWakeAt: string }[],
  ): Promise<void>;
  execution(executionId: number): Promise<ExecutionRow | null>;
  byIdempotencyKey(path: string, key: string): Promise<ExecutionRow | null>;
  /** Running executions below this one (children, grandchildren …), parents first. */
  runningDescendants(executionId: number): Promise<readonly number[]>;
  /** Running executions older than the instant, oldest first. */
  runningSince(before: string, limit: number): Promise<readonly number[]>;
  /** Executions with events that no turn has handled yet (`handled_through < last_event_id`, running). */
  withInbox(limit: number): Promise<readonly number[]>;
  payload(ref: string): Promise<Json | undefined>;
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

/** The database did not answer, or the answer was lost: the outcome is unknown. */
export class UnavailableError extends Error {
  override readonly name = 'UnavailableError';
  readonly reason: 'db_unavailable' | 'pool_saturated';
  constructor(reason: 'db_unavailable' | 'pool_saturated' = 'db_unavailable', options?: ErrorOptions) {
    super('the database is not available', options);
    this.reason = reason;
  }
}

export type BusTopic = 'executions' | 'batches' | 'workers' | 'control' | `commands.${string}`;

/** Hints between processes. Nothing depends on their arrival, order or number. */
export interface Bus {
  publish(topic: BusTopic, hints: readonly JsonMap[]): void;
  subscribe(listener: (topic: BusTopic, hints: readonly JsonMap[]) => void): () => void;
  state(): 'ok' | 'degraded' | 'down';
  close(): Promise<void>;
}

export type { EventStatus };
