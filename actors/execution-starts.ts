/**
 * Starting executions, anew, again by a key, or again from a step (api 2.3.1, 2.3.10, 1.14). A start is an event like any
 * other, delivered through the mailbox of an execution that is not stored yet.
 */

import { canonicalJson } from '../machines/canonical-json.ts';
import { isoOf } from '../machines/command/instant.ts';
import type { LogEvent } from '../machines/events.ts';
import { EXECUTION_MACHINE_VERSION } from '../machines/execution/machine.ts';
import { ENGINE_VERSION, newExecution, runOf } from '../machines/execution/take-turn.ts';
import type { JsonMap } from '../machines/json.ts';
import { readCatalogPath } from '../machines/playbook/catalog-path.ts';
import { mergeInputs } from '../machines/playbook/workload.ts';
import { OPEN_CALLER } from './audit.ts';
import { readResourceKind } from './catalog-service.ts';
import { DomainError } from './errors.ts';
import { ExecutionActor } from './execution-actor.ts';
import { auditOf, type ExecutionServiceParts, executionRow, noSuchExecution } from './execution-parts.ts';
import type { ExecutionWatch } from './execution-watch.ts';
import { DuplicateKeyError, type ExecutionRow, type Store, UnavailableError } from './ports.ts';
import { copiesFor, inputsOf } from './rerun.ts';
import type { CatalogEntry, RerunRequest, StartReceipt, StartRequest } from './services.ts';
import { startedTrace, traceMeta } from './traces.ts';

const WAIT_MAX_MS = 60_000;
const ROWS_AT_ONCE = 500;

/** What the row of a start is made of. */
interface Start {
  readonly executionId: number;
  readonly request: StartRequest;
  readonly entry: CatalogEntry;
  readonly parent: ExecutionRow | null;
  readonly workload: JsonMap;
  readonly hash: string | null;
  readonly createdBy: string | null;
}

export class ExecutionStarts {
  readonly #parts: ExecutionServiceParts;
  readonly #watch: ExecutionWatch;
  #isDraining = false;

  constructor(parts: ExecutionServiceParts, watch: ExecutionWatch) {
    this.#parts = parts;
    this.#watch = watch;
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
      : await auditOf(this.#parts, 'execution.start', executionId, { path, version, catalog_id: catalogId });
    const createdBy = this.#creator(parent);
    let actor: ExecutionActor;
    let commandsGenerated: number;
    try {
      const started = await flusher.submit({
        executionId,
        audit,
        create: () => {
          const row = this.#newRow({ executionId, request, entry, parent, workload, hash, createdBy });
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
    return this.#receipt(actor.row, commandsGenerated, false, request);
  }

  async rerun(executionId: number, request: RerunRequest): Promise<StartReceipt> {
    const { catalog, store, supervisor } = this.#parts;
    const row = await executionRow(this.#parts.store, executionId);
    const { entry } = await catalog.executable({
      ...(request.version === 'same' ? { catalogId: row.catalogId } : { path: row.path, version: request.version }),
      resourceKind: request.resourceKind ?? row.kind,
    });
    let from: StartRequest['from'] = null;
    if (request.fromStep !== null) {
      const old = await supervisor.actorOf(row);
      if (old === null) throw noSuchExecution(executionId);
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

  async #parent(parentExecutionId: number | null): Promise<ExecutionRow | null> {
    const { store, nestingMax } = this.#parts;
    if (parentExecutionId === null) return null;
    const parent = await executionRow(this.#parts.store, parentExecutionId);
    let depth = 1;
    for (let above = parent.parentExecutionId; above !== null; depth += 1) {
      if (depth >= nestingMax) {
        throw new DomainError('nesting_too_deep', `Playbooks are nested deeper than ${nestingMax}`);
      }
      above = (await store.execution(above))?.parentExecutionId ?? null;
    }
    return parent;
  }

  /** Who asks; what the service and its workers start belongs to whoever started its parent. Null: nobody is told apart. */
  #creator(parent: ExecutionRow | null): string | null {
    const { actor, role, requestId } = this.#parts.caller?.() ?? OPEN_CALLER;
    if (requestId === null || role === 'worker') return parent?.createdBy ?? null;
    return actor === OPEN_CALLER.actor ? null : actor;
  }

  #newRow({ executionId, request, entry, parent, workload, hash, createdBy }: Start): ExecutionRow {
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
      createdBy,
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
    return this.#receipt(known, issued, true, request);
  }

  async #receipt(
    row: ExecutionRow,
    commandsGenerated: number,
    duplicate: boolean,
    { waitMs = 0, signal }: StartRequest,
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
    if (waitMs <= 0) return { ...base, waited: null };
    const late = AbortSignal.timeout(Math.min(waitMs, WAIT_MAX_MS));
    const over = signal === undefined ? late : AbortSignal.any([late, signal]);
    const ended = await this.#watch.whenEnded(row.executionId, over);
    return { ...base, waited: { status: ended.status, result: ended.result, error: ended.error } };
  }
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
