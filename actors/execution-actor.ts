/**
 * A live execution: its chart, its values, the rows of its open commands and its head, all as of the last commit or, while a
 * flush is under way, as of what that flush will commit. It is thrown away whenever a flush fails; the log gives a new one.
 */

import { instantOf, isoOf } from '../machines/command/instant.ts';
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
import type { CommandRow, EventRow, ExecutionRow, Ids, ResultRow } from './ports.ts';

/** What every execution of a process shares. */
export interface Engine {
  readonly ids: Ids;
  readonly limits: EngineLimits;
  readonly pendingRetrySeconds: number;
  readonly leaseSeconds: number;
  readonly stepTimeoutSeconds: number;
  readonly commandMaxAttempts: number;
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
}

/** What the flush under way will write for one execution. */
export interface Writing {
  readonly expectedLastEventId: number;
  readonly events: EventRow[];
  readonly issued: Map<number, CommandRow>;
  readonly changed: Map<number, CommandRow>;
  readonly results: ResultRow[];
  /** Values of `results` by reference: a turn may read what it has stored itself. */
  readonly stored: Map<string, Json>;
  readonly abandoned: number[];
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
  /** Steps entered or skipped so far, for the progress of the head. */
  readonly touched: Touched;
  readonly #engine: Engine;
  /** Instant of the turn under way; never before the last one, whatever the clock says. */
  #at = '';

  constructor(parts: ExecutionActorParts, engine: Engine) {
    this.row = parts.row;
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
      expectedLastEventId: this.row.lastEventId,
      events: [],
      issued: new Map(),
      changed: new Map(),
      results: [],
      stored: new Map(),
      abandoned: [],
    };
    return this.writing;
  }

  /** Appends an inbox event and takes its turn. */
  deliver(draft: EventDraft): { readonly event: LogEvent; readonly turn: Turn } {
    const event = this.append(draft);
    return { event, turn: this.take(event) };
  }

  /** Takes the turn of an inbox event that was appended already. */
  take(event: LogEvent): Turn {
    const writing = this.#openWriting();
    const turn = takeTurn(this.state, event, {
      plan: this.plan,
      identity: this.row,
      limits: this.#engine.limits,
      at: this.#at,
      nextEventId: () => this.#nextEventId(),
      newId: () => this.#engine.ids.next(),
      isPending: (commandId) => this.commands.get(commandId)?.status === 'PENDING',
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

  /** Appends an inbox event that only attaches something; the chart folds it and decides nothing. */
  note(draft: EventDraft): LogEvent {
    const event = this.append(draft);
    absorbEvent(this.state, event);
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
    if (row.status === 'PENDING' || row.status === 'CLAIMED' || row.status === 'RUNNING')
      this.commands.set(row.commandId, row);
    else this.commands.delete(row.commandId);
    if (writing.issued.has(row.commandId)) writing.issued.set(row.commandId, row);
    else writing.changed.set(row.commandId, row);
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
      toolKind: command.step.toolKind,
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
    if (event.type === 'step.enter' || event.type === 'step.skipped')
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
        this.change(this.#closed(row, 'CANCELLED', event, 'the execution failed'));
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
