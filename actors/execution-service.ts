/**
 * Starting, ending and following executions (api 2.3, 4.1, 4.8). Every change of an execution is an event delivered through
 * its mailbox; a statement that sets a status does not exist.
 */

import { canonicalJson } from '../machines/canonical-json.ts';
import { isoOf } from '../machines/command/instant.ts';
import type { LogEvent } from '../machines/events.ts';
import { EXECUTION_MACHINE_VERSION } from '../machines/execution/machine.ts';
import { progressOf } from '../machines/execution/progress.ts';
import { ServerScope } from '../machines/execution/scope.ts';
import { ENGINE_VERSION, newExecution, runOf } from '../machines/execution/take-turn.ts';
import type { JsonMap } from '../machines/json.ts';
import { readCatalogPath } from '../machines/playbook/catalog-path.ts';
import { Facade } from '../machines/playbook/template/facade.ts';
import { MissingPayload } from '../machines/playbook/values.ts';
import { mergeInputs } from '../machines/playbook/workload.ts';
import type { AuditRow, CurrentCaller } from './audit.ts';
import { readResourceKind } from './catalog-service.ts';
import { DomainError } from './errors.ts';
import { type Engine, ExecutionActor, type Writing } from './execution-actor.ts';
import type { Flusher } from './flush.ts';
import type { KeychainPreparation } from './keychain-preparation.ts';
import type { Fence } from './lease.ts';
import {
  type Bus,
  type Clock,
  DuplicateKeyError,
  type ExecutionRow,
  type ExecutionStatus,
  type Ids,
  type Log,
  type Meter,
  type Store,
  UnavailableError,
} from './ports.ts';
import { readingStage } from './reading-stage.ts';
import { endCancelled, endFromOutside, recordEvent, refuseReserved } from './record-event.ts';
import { endsNow, hasMovedSince, isBehind } from './report.ts';
import { copiesFor, inputsOf } from './rerun.ts';
import type {
  CancelReceipt,
  CatalogEntry,
  CatalogService,
  CleanupReceipt,
  EventInput,
  EventReceipt,
  ExecutionInsight,
  ExecutionService,
  RerunRequest,
  StartReceipt,
  StartRequest,
} from './services.ts';
import type { Supervisor } from './supervisor.ts';
import { startedTrace, traceMeta } from './traces.ts';

export interface ExecutionServiceParts {
  readonly store: Store;
  readonly flusher: Flusher;
  readonly supervisor: Supervisor;
  readonly catalog: CatalogService;
  readonly ids: Ids;
  readonly clock: Clock;
  readonly engine: Engine;
  readonly bus: Bus;
  readonly log: Log;
  readonly meter: Meter;
  /** `default` means that the request named none. */
  readonly nestingMax: number;
  /** Null: declared entries are not resolved here. */
  readonly keychain: KeychainPreparation | null;
  /** Who asks, where requests are served: what people do leaves audit rows. */
  readonly caller: CurrentCaller | null;
}

/** One call cancels so many at most; the next one goes on. */
const CLEANUP_MAX = 100_000;
const CLEANUP_AT_ONCE = 64;
/** Children of one look; the next one goes on. */
const ABANDONED_MAX = 1_000;
const WAIT_MAX_MS = 60_000;
const ROWS_AT_ONCE = 500;
/** Looks at the log for one event while others keep changing it. */
const LOOKS_MAX = 8;
/** Never a row, so never a second one: the answer names the server's own. */
const UNSTORED: ReadonlySet<string> = new Set(['command.heartbeat', 'step.enter']);

/** `row` is there when this process made the change; a hint of another one has only the facts. */
type Follower = (lastEventId: number, status: ExecutionStatus, row: ExecutionRow | null) => void;

export class Executions implements ExecutionService {
  readonly #parts: ExecutionServiceParts;
  readonly #followers = new Map<number, Set<Follower>>();
  #isDraining = false;

  constructor(parts: ExecutionServiceParts) {
    this.#parts = parts;
  }

  async start(request: StartRequest): Promise<StartReceipt> {
    const isChild = (request.parentCommandId ?? null) !== null;
    // What runs already may go on to its end, and its children belong to it.
    if (this.#isDraining && !isChild) {
      throw new DomainError('shutting_down', 'This server drains and starts nothing');
    }
    const { catalog, store, supervisor, ids, flusher, engine } = this.#parts;
    const key = request.idempotencyKey ?? null;
    let entry: CatalogEntry;
    try {
      ({ entry } = await catalog.executable(request));
    } catch (error) {
      const known = key === null || !isGone(error) ? null : await this.#startedBefore(request, key);
      if (known === null) throw error;
      return this.#repeated(known, engine.sha256(canonicalJson(saidIn(request, known.kind))), request);
    }
    const hash = key === null ? null : engine.sha256(canonicalJson(saidIn(request, entry.kind)));
    if (key !== null) {
      const known = await store.byIdempotencyKey(entry.path, key);
      if (known !== null) return this.#repeated(known, hash, request);
    }
    const parent = await this.#parent(request.parentExecutionId ?? null);
    const plan = await supervisor.plan(entry.catalogId);
    await ids.reserve(256);
    const executionId = ids.next();
    const workload = mergeInputs(plan.playbook.workload, request.workload);
    // Only playbooks that declare entries pay for them; they are there before the first command (language 12.4.1).
    const keychain = plan.playbook.keychain.length > 0 ? this.#parts.keychain : null;
    await keychain?.prepare({
      executionId,
      rootExecutionId: parent?.rootExecutionId ?? executionId,
      parentExecutionId: parent?.executionId ?? null,
      catalogId: entry.catalogId,
      definitions: plan.playbook.keychain,
      workload,
      args: request.workload,
    });
    const { path, version, catalogId } = entry;
    const audit = isChild
      ? null
      : await this.#audit('execution.start', executionId, { path, version, catalog_id: catalogId });
    let actor: ExecutionActor;
    let commandsGenerated: number;
    try {
      const started = await flusher.submit({
        executionId,
        audit,
        create: () => {
          const row = this.#newRow(executionId, request, entry, parent, workload, hash);
          return new ExecutionActor(
            { row, state: newExecution(), plan, commands: new Map(), snapshotThrough: 0, isStored: false },
            engine,
          );
        },
        apply: (created) => {
          created.row = { ...created.row, startTime: created.at };
          const { turn } = created.deliver(
            {
              type: 'execution.started',
              status: 'running',
              nodeName: entry.path,
              nodeType: 'execution',
              context: {
                path: entry.path,
                version: entry.version,
                catalog_id: entry.catalogId,
                workload,
                args: request.workload,
                parent_execution_id: parent?.executionId ?? null,
                ...(request.from ? { from_step: request.from.step } : {}),
              },
              meta: { ...traceMeta(created.row.trace), ...request.meta },
            },
            request.from?.copied,
          );
          return { created, commands: turn.issued.length };
        },
      });
      actor = started.created;
      commandsGenerated = started.commands;
    } catch (error) {
      // After a lost answer the execution may exist; then its entries go with its end.
      if (!(error instanceof UnavailableError)) await keychain?.discard(executionId);
      if (!(error instanceof DuplicateKeyError) || key === null) throw error;
      // Two first uses of a key: the other one won and is committed.
      const winner = await store.byIdempotencyKey(entry.path, key);
      if (winner === null) throw error;
      return this.#repeated(winner, hash, request);
    }
    return this.#receipt(actor.row, commandsGenerated, false, request.waitMs ?? null);
  }

  async rerun(executionId: number, request: RerunRequest): Promise<StartReceipt> {
    const { catalog, store, supervisor } = this.#parts;
    const row = await this.#row(executionId);
    const { entry } = await catalog.executable({
      ...(request.version === 'same' ? { catalogId: row.catalogId } : { path: row.path, version: request.version }),
      resourceKind: request.resourceKind ?? row.kind,
    });
    let from: StartRequest['from'] = null;
    if (request.fromStep !== null) {
      const old = await supervisor.actor(executionId);
      if (old === null) throw notFound(executionId);
      const plan = await supervisor.plan(entry.catalogId);
      const rows = (through: number) => writtenRows(executionId, through, store);
      from = {
        step: request.fromStep,
        copied: await copiesFor(executionId, request.fromStep, plan, runOf(old.state), store, rows),
      };
    }
    return this.start({
      catalogId: entry.catalogId,
      resourceKind: entry.kind,
      workload: { ...(await inputsOf(executionId, store)), ...request.workload },
      executionPool: row.pool,
      priority: row.priority,
      labels: row.labels,
      rerunOf: executionId,
      from,
      trace: request.trace,
      meta: { rerun_of: executionId, ...(request.reason === null ? {} : { reason: request.reason }) },
    });
  }

  /** Starts are refused while it drains, but for those that a running execution waits for. */
  drain(isDraining = true): void {
    this.#isDraining = isDraining;
  }

  async cancel(
    executionId: number,
    options: { reason: string; cascade: boolean; by: 'api' | 'stop' },
  ): Promise<CancelReceipt> {
    const { store } = this.#parts;
    const row = await store.execution(executionId);
    if (row === null) throw notFound(executionId);
    const isMine = row.status === 'running' && (await this.#cancelOne(executionId, options.reason, options.by, {}));
    const cancelled: number[] = isMine ? [executionId] : [];
    if (options.cascade) {
      for (const child of await store.runningDescendants(executionId)) {
        const reason = `Parent execution ${executionId} was cancelled: ${options.reason}`;
        if (await this.#cancelOne(child, reason, 'cascade', { cascade_from: executionId })) cancelled.push(child);
      }
    }
    if (isMine) {
      const noun = cancelled.length === 1 ? 'execution' : 'executions';
      return { status: 'cancelled', cancelled, message: `Cancelled ${cancelled.length} ${noun}` };
    }
    return { status: 'already_completed', cancelled, message: `Execution ${executionId} is already completed` };
  }

  async cleanup(options: Parameters<ExecutionService['cleanup']>[0]): Promise<CleanupReceipt> {
    const { store, clock, meter } = this.#parts;
    const minutes = options.olderThanMinutes;
    // Nothing is older than the clock, whatever was asked for.
    const before = isoOf(Math.max(0, clock.now() - minutes * 60_000));
    const stuck = await store.runningSince(before, CLEANUP_MAX);
    const isMine = await Promise.all(stuck.map((id) => options.mayEnd?.(id) ?? true));
    const selected = stuck.filter((_, index) => isMine[index]);
    const found: number[] = options.dryRun ? [...selected] : [];
    const reason = `Stuck execution cleanup: running for more than ${minutes} minutes`;
    const extra = { auto_cancelled: true, older_than_minutes: minutes };
    // Oldest first, so that a parent ends before its children; a few share a flush.
    for (let next = 0; !options.dryRun && next < selected.length; next += CLEANUP_AT_ONCE) {
      const few = selected.slice(next, next + CLEANUP_AT_ONCE);
      const done = await Promise.all(few.map((id) => this.#cancelOne(id, reason, 'cleanup', extra)));
      found.push(...few.filter((_, index) => done[index]));
    }
    meter.count('svc_cleanup_cancelled_total', {}, options.dryRun ? 0 : found.length);
    const ids = [...found].sort((a, b) => a - b);
    const message =
      ids.length === 0
        ? `No stuck executions found older than ${minutes} minutes`
        : options.dryRun
          ? `[DRY RUN] Would cancel ${ids.length} stuck executions older than ${minutes} minutes`
          : `Cancelled ${ids.length} stuck executions older than ${minutes} minutes`;
    return { executionIds: ids, message, dryRun: options.dryRun };
  }

  /**
   * Ends a run that a restart interrupted, unless anything happened to it since `seenEventId`. The fence belongs to the lease
   * under which that was decided. Answers whether it was ended by this call.
   */
  async endInterrupted(
    executionId: number,
    options: { seenEventId: number; reason: string; extra: JsonMap; fence: Fence },
  ): Promise<boolean> {
    return this.#parts.flusher.submit({
      executionId,
      fence: options.fence,
      apply: (actor) => {
        if (isEnded(actor) || actor.row.lastEventId !== options.seenEventId) return false;
        endCancelled(actor, { reason: options.reason, by: 'auto_resume', extra: options.extra });
        return true;
      },
    });
  }

  async finalize(
    executionId: number,
    options: { status: 'completed' | 'failed'; reason: string; error: string | null },
  ): Promise<{ status: 'finalized' | 'already_completed'; message: string }> {
    const done = await this.#parts.flusher.submit({
      executionId,
      audit: await this.#audit('execution.finalize', executionId, { status: options.status }),
      apply: (actor) => {
        if (isEnded(actor)) return false;
        endFromOutside(actor, { status: options.status, reason: options.error ?? options.reason, result: null });
        return true;
      },
    });
    return done
      ? { status: 'finalized', message: `Execution ${executionId} was finalized as ${options.status}` }
      : { status: 'already_completed', message: `Execution ${executionId} is already completed` };
  }

  async recordEvent(input: EventInput): Promise<EventReceipt> {
    refuseReserved(input.type);
    const { executionId, commandId, reportId } = input;
    if (commandId === null && reportId === null) return this.#recordEvent(input);
    const key = commandId === null ? `e${executionId}:${reportId}` : `c${commandId}`;
    return this.#parts.supervisor.asking.run(key, () => this.#recordEvent(input));
  }

  async #recordEvent(input: EventInput): Promise<EventReceipt> {
    const { store, flusher, supervisor } = this.#parts;
    for (let look = 0; look < LOOKS_MAX; look += 1) {
      const seenThrough = (await supervisor.actor(input.executionId))?.storedThrough ?? 0;
      const [row, events, reported] = await Promise.all([
        input.commandId === null ? null : store.command(input.commandId),
        input.commandId === null ? [] : store.commandEvents(input.executionId, input.commandId),
        input.reportId === null ? [] : store.reported(input.executionId, [input.reportId]),
      ]);
      supervisor.refresh(input.executionId, row?.latestEventId ?? 0);
      const known = { row, events, reported };
      let isRepeated = false;
      const receipt = await flusher.submit({
        executionId: input.executionId,
        apply: (actor) => {
          // A flush that is tried again may have lost to another process: what was known is old.
          if (isRepeated || hasMovedSince(actor, seenThrough, input) || isBehind(actor, known)) return null;
          isRepeated = true;
          return recordEvent(actor, input, known);
        },
      });
      if (receipt === null) continue;
      if (receipt.duplicate && !UNSTORED.has(input.type)) this.#parts.meter.count('svc_events_duplicate_total');
      return receipt;
    }
    throw new DomainError('queue_unavailable', `Execution ${input.executionId} is changing too fast`);
  }

  async insight(executionId: number): Promise<ExecutionInsight> {
    const actor = await this.#parts.supervisor.actor(executionId);
    if (actor === null) throw notFound(executionId);
    const run = runOf(actor.state);
    await this.#parts.supervisor.fetchPayloads(writtenRefs(actor));
    const progress = progressOf(run, actor.plan.graph, actor.touched, actor.row.status !== 'running');
    const named = (status: string) => Object.keys(run.steps).filter((step) => run.steps[step]?.status === status);
    const variables = new ServerScope(readingStage(actor), null).lookup('ctx');
    return {
      progress: progress.percent,
      progressDetail: progress.detail,
      currentStep: actor.row.currentStep,
      completedSteps: named('completed'),
      failedSteps: named('failed'),
      // `ctx` as a plain map is JSON.
      variables: variables instanceof Facade ? (variables.plain() as JsonMap) : {},
    };
  }

  async whenEnded(executionId: number, signal: AbortSignal): Promise<ExecutionRow> {
    const { store } = this.#parts;
    const { promise: ended, resolve: wake } = Promise.withResolvers<ExecutionRow | null>();
    const leave = this.follow(executionId, (_last, status, row) => {
      if (status !== 'running') wake(row);
    });
    const onAbort = () => wake(null);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      const known = await this.#committedRow(executionId);
      if (known.status !== 'running' || signal.aborted) return known;
      return (await ended) ?? (await store.execution(executionId)) ?? known;
    } finally {
      leave();
      signal.removeEventListener('abort', onAbort);
    }
  }

  follow(executionId: number, onChange: Follower): () => void {
    const followers = this.#followers.get(executionId) ?? new Set();
    this.#followers.set(executionId, followers);
    followers.add(onChange);
    return () => {
      followers.delete(onChange);
      // Whoever leaves twice must not take along those who came in between.
      if (followers.size === 0 && this.#followers.get(executionId) === followers) this.#followers.delete(executionId);
    };
  }

  /** After a commit of this process, or a hint of another one. */
  notify(executionId: number, lastEventId: number, status: ExecutionStatus, row: ExecutionRow | null = null): void {
    for (const follower of this.#followers.get(executionId) ?? []) follower(lastEventId, status, row);
  }

  onCommitted(actor: ExecutionActor, writing: Writing): void {
    const { row } = actor;
    this.notify(row.executionId, row.lastEventId, row.status, row);
    for (const child of writing.abandoned)
      this.#abandon(child, row.executionId).catch((error: unknown) => {
        const who = { execution_id: child, parent_execution_id: row.executionId };
        this.#parts.log.warn('A child nobody waits for could not be ended', { ...who, error: String(error) });
      });
  }

  /** A child that nobody waits for any more ends with everything below it (language 5.7). */
  async #abandon(child: number, parent: number): Promise<void> {
    const reason = `Parent execution ${parent} no longer waits`;
    for (const executionId of [child, ...(await this.#parts.store.runningDescendants(child))])
      await this.#cancelOne(executionId, reason, 'cascade', { cascade_from: parent });
  }

  /**
   * Ends the children that a crash kept from being ended with the wait for them. The rows say which: what has been so for at
   * least `seconds` is nobody's work under way. Answers how many children there were.
   */
  async endAbandoned(seconds: number): Promise<number> {
    const found = await this.#parts.store.abandoned(seconds, ABANDONED_MAX);
    for (const { executionId, parentExecutionId } of found) await this.#abandon(executionId, parentExecutionId);
    return found.length;
  }

  /** An event that keeps failing its execution ends it, so that nobody waits for it for ever (api 4.1). */
  endPoisoned(executionId: number, error: unknown): void {
    const { flusher, log } = this.#parts;
    const { kind, code, message } = poisonOf(error);
    const errors = [{ step: null, task: null, iteration: null, kind, code, message }];
    const end = {
      status: 'failed',
      reason: message,
      result: null,
      detail: { message, failed_steps: [], errors },
    } as const;
    flusher
      .submit({
        executionId,
        // What waits may be the very event that cannot be handled.
        inbox: 'leave',
        apply: (actor) => {
          if (!isEnded(actor)) endFromOutside(actor, end);
        },
      })
      .catch((cause: unknown) =>
        log.error('a defective execution could not be ended', { execution_id: executionId, error: String(cause) }),
      );
  }

  async #cancelOne(executionId: number, reason: string, by: string, extra: JsonMap): Promise<boolean> {
    const action = by === 'cleanup' ? 'execution.cleanup' : 'execution.cancel';
    return this.#parts.flusher.submit({
      executionId,
      audit: await this.#audit(action, executionId, { by, ...extra }),
      apply: (actor) => {
        if (isEnded(actor)) return false;
        endCancelled(actor, { reason, by, extra });
        return true;
      },
    });
  }

  /** Null where no person asks: children that workers start, schedules, what the service does by itself. */
  async #audit(action: string, executionId: number, detail: JsonMap): Promise<AuditRow | null> {
    const caller = this.#parts.caller?.() ?? null;
    if (caller === null || caller.requestId === null || caller.role === 'worker') return null;
    await this.#parts.ids.reserve(1);
    return { ...caller, auditId: this.#parts.ids.next(), action, target: String(executionId), outcome: 'ok', detail };
  }

  async #row(executionId: number): Promise<ExecutionRow> {
    const row = await this.#parts.store.execution(executionId);
    if (row === null) throw notFound(executionId);
    return row;
  }

  /** From memory when the execution is live and no flush is writing it, else from the store. */
  async #committedRow(executionId: number): Promise<ExecutionRow> {
    const actor = this.#parts.supervisor.live(executionId);
    return actor !== null && actor.writing === null ? actor.row : this.#row(executionId);
  }

  async #parent(parentExecutionId: number | null): Promise<ExecutionRow | null> {
    const { store, nestingMax } = this.#parts;
    if (parentExecutionId === null) return null;
    const parent = await this.#row(parentExecutionId);
    let depth = 1;
    for (let above = parent.parentExecutionId; above !== null; depth += 1) {
      if (depth >= nestingMax) {
        throw new DomainError('nesting_too_deep', `Playbooks are nested deeper than ${nestingMax}`);
      }
      above = (await store.execution(above))?.parentExecutionId ?? null;
    }
    return parent;
  }

  #newRow(
    executionId: number,
    request: StartRequest,
    entry: Awaited<ReturnType<CatalogService['executable']>>['entry'],
    parent: ExecutionRow | null,
    workload: JsonMap,
    hash: string | null,
  ): ExecutionRow {
    const pool = request.executionPool ?? (entry.path.startsWith('system/') ? 'system' : 'shared');
    return {
      executionId,
      rootExecutionId: parent?.rootExecutionId ?? executionId,
      parentExecutionId: parent?.executionId ?? null,
      parentCommandId: request.parentCommandId ?? null,
      parentEventId: request.parentEventId ?? null,
      rerunOf: request.rerunOf ?? null,
      catalogId: entry.catalogId,
      path: entry.path,
      version: entry.version,
      kind: entry.kind,
      pool,
      priority: request.priority ?? 0,
      status: 'running',
      workload,
      result: null,
      resultRef: null,
      error: null,
      errorDetail: null,
      progressDetail: null,
      currentStep: null,
      progress: 0,
      lastEventId: 0,
      handledThrough: 0,
      lastEventType: 'execution.started',
      lastNodeName: entry.path,
      engineVersion: ENGINE_VERSION,
      machineVersion: EXECUTION_MACHINE_VERSION,
      openCommands: 0,
      nextWakeAt: null,
      startTime: isoOf(0),
      endTime: null,
      idempotencyKey: request.idempotencyKey ?? null,
      requestHash: hash,
      labels: request.labels ?? {},
      trace: startedTrace(
        this.#parts.engine.tracer,
        request.trace ?? null,
        parent === null ? null : { row: parent, commandId: request.parentCommandId ?? null },
      ),
      createdBy: null,
    };
  }

  /** What was started when its playbook was still there (api 1.14: keys live as long as their records). Throws forbidden. */
  async #startedBefore(request: StartRequest, key: string): Promise<ExecutionRow | null> {
    const { catalog, store } = this.#parts;
    const { path: given, catalogId } = request;
    const said = given ?? (catalogId === undefined ? undefined : (await catalog.byId(catalogId))?.path);
    const path = said === undefined ? null : readCatalogPath(said);
    const known = path === null ? null : await store.byIdempotencyKey(path, key);
    if (known === null || known.kind !== readResourceKind(request.resourceKind ?? 'playbook')) return null;
    await catalog.permit(known.catalogId, 'execute');
    return known;
  }

  async #repeated(known: ExecutionRow, hash: string | null, request: StartRequest): Promise<StartReceipt> {
    if (known.requestHash !== hash) {
      throw new DomainError(
        'idempotency_conflict',
        `The idempotency key was used for execution ${known.executionId} with another request`,
      );
    }
    const issued = await this.#parts.store.issuedAtStart(known.executionId);
    return this.#receipt(known, issued, true, request.waitMs ?? null);
  }

  async #receipt(
    row: ExecutionRow,
    commandsGenerated: number,
    duplicate: boolean,
    waitMs: number | null,
  ): Promise<StartReceipt> {
    const base = {
      executionId: row.executionId,
      path: row.path,
      catalogId: row.catalogId,
      version: row.version,
      kind: row.kind,
      commandsGenerated,
      duplicate,
      startedAt: row.startTime,
    };
    if (waitMs === null || waitMs <= 0) return { ...base, waited: null };
    const ended = await this.whenEnded(row.executionId, AbortSignal.timeout(Math.min(waitMs, WAIT_MAX_MS)));
    return { ...base, waited: { status: ended.status, result: ended.result, error: ended.error } };
  }
}

function isEnded(actor: ExecutionActor): boolean {
  return (endsNow(actor) ?? actor.row.status) !== 'running';
}

/** What a repeat has to say again (api 1.14). What is said by default counts as not said, and a wait changes no run. */
function saidIn(request: StartRequest, kind: string): JsonMap {
  const { workload, catalogId, version, executionPool, priority, labels } = request;
  return {
    workload,
    resource_kind: kind,
    ...(catalogId === undefined ? {} : { catalog_id: catalogId }),
    ...(version === undefined || version === 'latest' ? {} : { version }),
    ...(executionPool == null ? {} : { execution_pool: executionPool }),
    ...(priority === undefined || priority === 0 ? {} : { priority }),
    ...(labels === undefined || Object.keys(labels).length === 0 ? {} : { labels }),
  };
}

/** Archived, or its path is that of something else now. */
function isGone(error: unknown): boolean {
  return error instanceof DomainError && (error.code === 'not_found' || error.code === 'resource_kind_required');
}

function notFound(executionId: number): DomainError {
  return new DomainError('not_found', `Execution ${executionId} not found`);
}

/** References of written variables that are stored apart. */
function writtenRefs(actor: ExecutionActor): readonly string[] {
  const { written } = runOf(actor.state);
  const refs: string[] = [];
  for (const name of Object.keys(written)) {
    const ref = actor.state.materials.body(written[name] ?? null)?.references?.[name];
    if (typeof ref === 'string') refs.push(ref);
  }
  return refs;
}

/** Rows that wrote variables up to this event, in order. A long log is read in pieces. */
async function writtenRows(executionId: number, through: number, store: Store): Promise<readonly LogEvent[]> {
  const found: LogEvent[] = [];
  for (let first = 1; first <= through; first += ROWS_AT_ONCE) {
    const count = Math.min(ROWS_AT_ONCE, through - first + 1);
    const rows = await store.events(
      executionId,
      Array.from({ length: count }, (_, index) => first + index),
    );
    found.push(...rows.filter((event) => event.type === 'ctx.updated'));
  }
  return found;
}

/** A payload that is gone is no defect of the engine's: the values of the run cannot be told without it (language 10.4). */
function poisonOf(error: unknown): { readonly kind: string; readonly code: string; readonly message: string } {
  if (error instanceof MissingPayload)
    return { kind: 'missing_reference', code: 'MISSING_REFERENCE', message: error.message };
  const message = `The engine could not handle an event: ${error instanceof Error ? error.message : String(error)}`;
  return { kind: 'logic', code: 'ENGINE_DEFECT', message };
}
