/**
 * A live execution: its chart, its values, the rows of its open commands and its head, all as of the last commit or, while a
 * flush is under way, as of what that flush will commit. It is thrown away whenever a flush fails; the log gives a new one.
 */

import { instantOf, isoOf } from '../machines/command/instant.ts';
import { retryWaitOf } from '../machines/command/retry-wait.ts';
import type { EventDraft, LogEvent } from '../machines/events.ts';
import type { Plan } from '../machines/execution/plan.ts';
import { type Touched, touch, touchedBy } from '../machines/execution/progress.ts';
import type { EngineLimits, IssuedCommand, StoredValue } from '../machines/execution/stage.ts';
import {
  absorbEvent,
  completeDraft,
  type ExecutionState,
  runOf,
  type Turn,
  takeTurn,
} from '../machines/execution/take-turn.ts';
import type { Json } from '../machines/json.ts';
import { externalise } from './externalise.ts';
import type {
  BatchJob,
  BatchMove,
  BatchRow,
  CommandRow,
  EventRow,
  ExecutionRow,
  Ids,
  ResultRow,
  Tracer,
} from './ports.ts';

/** What every execution of a process shares. */
export interface Engine {
  readonly ids: Ids;
  readonly limits: EngineLimits;
  readonly pendingRetrySeconds: number;
  readonly leaseSeconds: number;
  readonly stepTimeoutSeconds: number;
  readonly commandMaxAttempts: number;
  readonly tracer: Tracer;
  sha256(text: string): string;
  payload(ref: string): Json | undefined;
}

export interface ExecutionActorParts {
  readonly row: ExecutionRow;
  readonly state: ExecutionState;
  readonly plan: Plan;
  readonly commands: Map<number, CommandRow>;
  readonly snapshotThrough: number;
  /** False: the row is inserted by the next flush. */
  readonly isStored: boolean;
  /** Events in the log that no turn has handled, oldest first. */
  readonly inbox?: readonly LogEvent[];
}

/** What the flush under way will write for one execution. */
export interface Writing {
  readonly expectedLastEventId: number;
  readonly expectedHandledThrough: number;
  readonly events: EventRow[];
  readonly issued: Map<number, CommandRow>;
  readonly changed: Map<number, CommandRow>;
  /** Commands of `changed` that got another context. */
  readonly recontexted: Set<number>;
  readonly results: ResultRow[];
  /** Values of `results` by reference: a turn may read what it has stored itself. */
  readonly stored: Map<string, Json>;
  readonly abandoned: number[];
  readonly batches: { readonly accepted: BatchRow[]; readonly moved: BatchMove[]; readonly jobs: BatchJob[] };
  /** Inbox events that took their turn. */
  handled: number;
  /** An event that ended the run and was in the log before. */
  terminal: LogEvent | null;
}

/** What can be told from a row without keeping it: is a later one a repeat? */
export interface Trace {
  readonly eventId: number;
  readonly type: string;
  readonly commandId: number | null;
  readonly attempt: number | null;
  readonly reportId: string | null;
  readonly stale: boolean;
  /** Left its command waiting for a child. */
  readonly parks: boolean;
}

const TRACES_MAX = 256;

/** The error of a command whose wait ended because its run failed. */
const GIVEN_UP = 'the execution failed';

export function traceOf({ eventId, type, commandId, attempt, reportId, stale, context }: LogEvent): Trace {
  return { eventId, type, commandId, attempt, reportId, stale, parks: context['pending_callback'] === true };
}

/** Whether there is anything for a flush to write. */
export function isWritten({ events, batches, handled }: Writing): boolean {
  return events.length > 0 || handled > 0 || batches.accepted.length + batches.moved.length + batches.jobs.length > 0;
}

export class ExecutionActor {
  row: ExecutionRow;
  readonly state: ExecutionState;
  readonly plan: Plan;
  /** Rows of open commands. */
  readonly commands: Map<number, CommandRow>;
  isStored: boolean;
  snapshotThrough: number;
  turnsSinceSnapshot = 0;
  writing: Writing | null = null;
  /**
   * Events in the log that no turn has handled, oldest first. They take their turns before any other does, so that the
   * state is what the log folds to in the order of causes.
   */
  inbox: LogEvent[];
  /** Steps entered or skipped so far, for the progress of the head. */
  readonly touched: Touched;
  readonly #engine: Engine;
  /** `last_event_id` of the stored head; rows written behind the service's back come after it. */
  #headAt: number;
  /** `handled_through` of the stored head. */
  #handledAt: number;
  /** The last rows of commands and reports this actor has written; it knows all from `#tracedFrom` on. */
  readonly #traces: Trace[] = [];
  #tracedFrom: number;
  /** Instant of the turn under way; never before the last one, whatever the clock says. */
  #at = '';

  constructor(parts: ExecutionActorParts, engine: Engine) {
    this.inbox = [...(parts.inbox ?? [])];
    this.#headAt = parts.row.lastEventId;
    this.#handledAt = parts.row.handledThrough;
    this.#tracedFrom = parts.row.lastEventId + 1;
    this.row = { ...parts.row, lastEventId: Math.max(parts.row.lastEventId, this.inbox.at(-1)?.eventId ?? 0) };
    this.state = parts.state;
    this.plan = parts.plan;
    this.commands = parts.commands;
    this.isStored = parts.isStored;
    this.snapshotThrough = parts.snapshotThrough;
    this.touched = touchedBy(runOf(parts.state), parts.plan.graph);
    this.#engine = engine;
  }

  get executionId(): number {
    return this.row.executionId;
  }

  get isEnded(): boolean {
    return this.row.status !== 'running';
  }

  get at(): string {
    return this.#at;
  }

  /** Begins (or goes on with) the writing of a flush. `now` is the database's time in milliseconds. */
  open(now: number): Writing {
    const at = isoOf(now);
    this.#at = at < this.#at ? this.#at : at;
    this.writing ??= {
      expectedLastEventId: this.#headAt,
      expectedHandledThrough: this.#handledAt,
      events: [],
      issued: new Map(),
      changed: new Map(),
      recontexted: new Set(),
      results: [],
      stored: new Map(),
      abandoned: [],
      batches: { accepted: [], moved: [], jobs: [] },
      handled: 0,
      terminal: null,
    };
    return this.writing;
  }

  /** After the commit: the log and this actor agree. */
  settle(): void {
    for (const event of this.writing?.events ?? [])
      if (event.commandId !== null || event.reportId !== null) this.#traces.push(traceOf(event));
    const excess = this.#traces.length - TRACES_MAX;
    if (excess > 0) this.#tracedFrom = (this.#traces.splice(0, excess).at(-1)?.eventId ?? 0) + 1;
    this.isStored = true;
    this.writing = null;
    this.#headAt = this.row.lastEventId;
    this.#handledAt = this.row.handledThrough;
  }

  /**
   * What was written after that event, also by the flush under way; null when this actor does not remember as far back.
   * Closes the gap between a look at the store and the flush.
   */
  writtenSince(eventId: number): readonly Trace[] | null {
    if (eventId + 1 < this.#tracedFrom) return null;
    const fresh = (this.writing?.events ?? []).map(traceOf);
    return [...this.#traces.filter((trace) => trace.eventId > eventId), ...fresh];
  }

  /** Appends an inbox event and takes its turn. */
  deliver(draft: EventDraft, copied: readonly EventDraft[] = []): { readonly event: LogEvent; readonly turn: Turn } {
    const event = this.append(draft);
    return { event, turn: this.take(event, copied) };
  }

  /** Takes the turn of an inbox event that was appended already. */
  take(event: LogEvent, copied: readonly EventDraft[] = []): Turn {
    const writing = this.#openWriting();
    const turn = takeTurn(this.state, event, {
      plan: this.plan,
      identity: this.row,
      limits: this.#engine.limits,
      at: this.#at,
      copied,
      nextEventId: () => this.#nextEventId(),
      newId: () => this.#engine.ids.next(),
      isPending: (commandId) => this.#isPending(commandId),
      attemptOf: (commandId) => this.commands.get(commandId)?.attempt ?? 0,
      payload: (ref) => writing.stored.get(ref) ?? this.#engine.payload(ref),
      store: (value, name, inlineMaxBytes) => this.store(value, name, null, inlineMaxBytes),
    });
    for (const decided of turn.decided) writing.events.push(this.#rowOf(decided));
    for (const command of turn.issued) this.#openCommand(command);
    for (const decided of turn.decided) this.#projectDecision(decided);
    writing.abandoned.push(...turn.abandoned);
    this.turnsSinceSnapshot += 1;
    return turn;
  }

  /** Nobody works on it: it was never granted, or waits for its next try. */
  #isPending(commandId: number): boolean {
    const row = this.commands.get(commandId);
    return row !== undefined && (row.status === 'PENDING' || retryWaitOf(row) !== null);
  }

  /** Appends an inbox event that only attaches something; the chart folds it and decides nothing. */
  note(draft: EventDraft): LogEvent {
    const event = this.append(draft);
    absorbEvent(this.state, event);
    return event;
  }

  /** Appends an event whose turn comes later. */
  file(draft: EventDraft): LogEvent {
    const event = this.append(draft);
    this.inbox.push(event);
    return event;
  }

  /** Folds an event that is in the log and decides nothing. */
  absorb(event: LogEvent): void {
    absorbEvent(this.state, event);
  }

  /** Appends a decision that was made for `cause` outside of the chart. */
  decide(cause: LogEvent, draft: EventDraft): LogEvent {
    const event = completeDraft(draft, this.#nextEventId(), cause.eventId, this.#at);
    this.#openWriting().events.push(this.#rowOf(event));
    return event;
  }

  /** Appends an event that no chart folds: claims, starts, late and stale reports, information. */
  append(draft: EventDraft): LogEvent {
    const eventId = this.#nextEventId();
    const event = completeDraft(draft, eventId, eventId, this.#at);
    this.#openWriting().events.push(this.#rowOf(event));
    return event;
  }

  /** Changes an open command's row; a closed one is forgotten after the flush. */
  change(row: CommandRow): void {
    const writing = this.#openWriting();
    const before = this.commands.get(row.commandId);
    if (before !== undefined && before.context !== row.context) writing.recontexted.add(row.commandId);
    if (row.status === 'PENDING' || row.status === 'CLAIMED' || row.status === 'RUNNING')
      this.commands.set(row.commandId, row);
    else this.commands.delete(row.commandId);
    if (writing.issued.has(row.commandId)) writing.issued.set(row.commandId, row);
    else writing.changed.set(row.commandId, row);
  }

  /** The row of a command after the turn of the event that parks it. A run that is failing waits for nobody. */
  park(row: CommandRow, event: LogEvent, seconds: number): void {
    const open = runOf(this.state).open[row.commandId];
    const startedAt = row.startedAt ?? event.at;
    if (open === undefined) {
      this.change({ ...this.#closed(row, 'CANCELLED', event, GIVEN_UP), startedAt });
      return;
    }
    this.change({
      ...row,
      status: 'RUNNING',
      startedAt,
      parkedOn: open.parkedOn,
      nextWakeAt: this.later(seconds),
      latestEventId: event.eventId,
    });
  }

  /** Writes the row of a batch with this flush. */
  acceptBatch(row: BatchRow): void {
    this.#openWriting().batches.accepted.push(row);
  }

  /** Moves a batch on with this flush. */
  moveBatch(move: BatchMove): void {
    const { requestId, executionId, from, fromDeadlineAt, state, errorCode, message, commandsGenerated } = move;
    const { deadlineAt, queueWaitMs, timings } = move;
    const times = { deadlineAt, queueWaitMs, timings };
    const { moved } = this.#openWriting().batches;
    moved.push({
      requestId,
      executionId,
      from,
      fromDeadlineAt,
      state,
      errorCode,
      message,
      commandsGenerated,
      ...times,
    });
  }

  /** Puts a job into the queue with this flush. */
  enqueue(job: BatchJob): void {
    this.#openWriting().batches.jobs.push(job);
  }

  /** Stores a value apart from the log, in the same transaction, when it is larger than the limit. */
  store(value: Json, name: string, commandId: number | null, inlineMaxBytes: number): StoredValue | null {
    const apart = externalise(value, {
      executionId: this.executionId,
      name,
      commandId,
      select: [],
      inlineMaxBytes,
      nextId: () => this.#engine.ids.next(),
      sha256: this.#engine.sha256,
    });
    if (apart === null) return null;
    const writing = this.#openWriting();
    writing.results.push(apart.row);
    writing.stored.set(apart.reference.ref, value);
    return { summary: apart.summary, reference: apart.reference };
  }

  /** Instant `seconds` after the turn under way. */
  later(seconds: number): string {
    return isoOf(instantOf(this.#at) + seconds * 1000);
  }

  get lastEventId(): number {
    return this.row.lastEventId;
  }

  /** The last event that is in the log for sure; a flush under way may be writing more. */
  get storedThrough(): number {
    return this.#headAt;
  }

  get engine(): Engine {
    return this.#engine;
  }

  #nextEventId(): number {
    const lastEventId = this.row.lastEventId + 1;
    this.row = { ...this.row, lastEventId };
    return lastEventId;
  }

  #openWriting(): Writing {
    if (this.writing === null) throw new Error('an execution was written to outside of a flush');
    return this.writing;
  }

  #rowOf(event: LogEvent): EventRow {
    return {
      ...event,
      executionId: this.row.executionId,
      catalogId: this.row.catalogId,
      parentExecutionId: this.row.parentExecutionId,
    };
  }

  #openCommand(command: IssuedCommand): void {
    const row: CommandRow = {
      executionId: this.row.executionId,
      commandId: command.commandId,
      eventId: command.event.eventId,
      catalogId: this.row.catalogId,
      commandKey: command.key,
      stepName: command.step.step.name,
      toolKind: command.toolKind,
      pool: this.row.pool,
      activation: command.activation,
      iterationIndex: command.iterationIndex,
      status: 'PENDING',
      attempt: 0,
      maxAttempts: this.#engine.commandMaxAttempts,
      priority: this.row.priority,
      workerId: null,
      claimId: null,
      claimedAt: null,
      startedAt: null,
      heartbeatAt: null,
      completedAt: null,
      parkedOn: null,
      nextWakeAt: this.later(this.#engine.pendingRetrySeconds),
      republishedAt: null,
      republishCount: 0,
      // RenderContext is JSON by construction (machines/execution/render-context.ts).
      context: { render_context: command.context as unknown as Json },
      contextRef: null,
      error: null,
      latestEventId: command.event.eventId,
      meta: command.event.meta,
      createdAt: command.event.at,
    };
    this.commands.set(row.commandId, row);
    this.#openWriting().issued.set(row.commandId, row);
  }

  /** Rows that follow from what the turn decided: cancelled commands, parked waits given up. */
  #projectDecision(event: LogEvent): void {
    if (event.type === 'step.enter' || event.type === 'step.skipped' || event.type === 'step.exit')
      touch(this.touched, this.plan.graph, event.nodeName);
    if (event.type === 'command.cancelled' && event.commandId !== null) {
      const row = this.commands.get(event.commandId);
      if (row !== undefined) this.change(this.#closed(row, 'CANCELLED', event, event.context['reason']));
    } else if (event.type === 'ctx.updated' && event.meta['failures'] !== undefined) {
      this.#cancelParked(event);
    }
  }

  #cancelParked(event: LogEvent): void {
    const { open } = runOf(this.state);
    for (const row of [...this.commands.values()]) {
      if (row.parkedOn !== null && open[row.commandId] === undefined) {
        this.change(this.#closed(row, 'CANCELLED', event, GIVEN_UP));
      }
    }
  }

  /** After a terminal event nothing stays open. */
  closeAll(event: LogEvent): void {
    for (const row of [...this.commands.values()])
      this.change(this.#closed(row, 'CANCELLED', event, event.context['reason']));
  }

  closed(row: CommandRow, status: 'COMPLETED' | 'FAILED', event: LogEvent, error: string | null): CommandRow {
    return this.#closed(row, status, event, error);
  }

  #closed(row: CommandRow, status: 'COMPLETED' | 'FAILED' | 'CANCELLED', event: LogEvent, error: unknown): CommandRow {
    return {
      ...row,
      status,
      completedAt: event.at,
      parkedOn: null,
      nextWakeAt: null,
      error: typeof error === 'string' ? error : null,
      latestEventId: event.eventId,
    };
  }
}
