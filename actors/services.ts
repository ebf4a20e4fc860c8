/**
 * What the service can be asked to do, one interface per group of routes. Routes are thin: schema, one of these calls,
 * reply. Refusals are thrown as DomainError; everything else a caller may see is in the types.
 */

import type { AccessRules, Permission } from '../machines/access.ts';
import type { EventDraft, EventStatus, LogEvent } from '../machines/events.ts';
import type { Json, JsonMap } from '../machines/json.ts';
import type { RenewConfig } from '../machines/keychain/renewal.ts';
import type { Reading } from '../machines/keychain/reply.ts';
import type { EntryScope } from '../machines/keychain/scope.ts';
import type { CatalogReading } from '../machines/playbook/catalog-document.ts';
import type { Diagnostic, Playbook } from '../machines/playbook/document.ts';
import type { SimulationRequest } from '../machines/simulation.ts';
import type { IdentityService } from './access-service.ts';
import type { ContextService } from './context-service.ts';
import type { DenialLog } from './denials.ts';
import type { ExecutionAccess } from './execution-access.ts';
import type { Explanation } from './explain.ts';
import type { InspectionService } from './inspection.ts';
import type { InvariantReport } from './invariants.ts';
import type { KeyService } from './key-rotation.ts';
import type { LeaseRow } from './lease.ts';
import type { BatchRow, CommandRow, CommandStatus, ExecutionRow, ExecutionStatus, Seen } from './ports.ts';
import type { ReaperStatus, SweepAnswer } from './reaper.ts';
import type { Reconciled } from './reconcile.ts';
import type { ScheduleService } from './schedule-service.ts';
import type { SessionService } from './session-service.ts';
import type { TokenService } from './token-service.ts';
import type { ToolServerService } from './tool-servers.ts';
import type { VariableService } from './variable-service.ts';

export type { Explanation } from './explain.ts';
export type {
  BatchView,
  ChartView,
  CommandView,
  DrawnExecution,
  EntryView,
  ExecutionView,
  InspectionService,
  Trial,
} from './inspection.ts';
export type { InvariantReport } from './invariants.ts';
export type { LeaseRow } from './lease.ts';
export type { ReaperStatus, SweepAnswer, SweepReport } from './reaper.ts';
export type { Schedule, ScheduleDraft } from './schedule-service.ts';
export type { Discovery, LifecycleReceipt } from './tool-servers.ts';
export type { Variable, VariableDraft, VariableType } from './variable-service.ts';

// ------------------------------------------------------------------ executions

export interface StartRequest {
  readonly path?: string;
  readonly catalogId?: number;
  readonly version?: number | 'latest';
  readonly resourceKind?: string;
  readonly workload: JsonMap;
  readonly parentExecutionId?: number | null;
  readonly parentCommandId?: number | null;
  readonly parentEventId?: number | null;
  readonly idempotencyKey?: string | null;
  readonly executionPool?: string | null;
  readonly priority?: number;
  readonly labels?: JsonMap;
  /** The execution whose inputs it runs again. */
  readonly rerunOf?: number | null;
  /** Begins at this step, with what an earlier run completed before it. */
  readonly from?: { readonly step: string; readonly copied: readonly EventDraft[] } | null;
  /** Kept with `execution.started`. */
  readonly meta?: JsonMap;
  /** Answer when the execution has ended or after this time, whichever is first. */
  readonly waitMs?: number;
  /** Ends the wait before its time. */
  readonly signal?: AbortSignal;
  /** `traceparent`, and `tracestate` behind a blank (machines/trace-context.ts). */
  readonly trace?: string | null;
}

export interface StartReceipt {
  readonly executionId: number;
  readonly path: string;
  readonly catalogId: number;
  readonly version: number;
  readonly kind: string;
  readonly commandsGenerated: number;
  readonly duplicate: boolean;
  readonly startedAt: string;
  /** Present when `waitMs` was given. */
  readonly waited: { readonly status: ExecutionStatus; readonly result: Json; readonly error: string | null } | null;
}

export interface CancelReceipt {
  readonly status: 'cancelled' | 'already_completed';
  readonly cancelled: readonly number[];
  readonly message: string;
}

export interface CleanupReceipt {
  readonly executionIds: readonly number[];
  readonly message: string;
  readonly dryRun: boolean;
}

/** Progress as of the log's last turn (language 14.5), for the status endpoints. */
export interface ExecutionInsight {
  readonly progress: number;
  readonly progressDetail: JsonMap;
  readonly currentStep: string | null;
  readonly completedSteps: readonly string[];
  readonly failedSteps: readonly string[];
  readonly variables: JsonMap;
}

/** One event as a worker or operator sends it (api 2.5.2). */
export interface EventInput {
  readonly executionId: number;
  readonly type: string;
  readonly step: string | null;
  readonly payload: JsonMap;
  readonly meta: JsonMap;
  readonly workerId: string | null;
  readonly status: EventStatus | null;
  readonly reportId: string | null;
  readonly commandId: number | null;
  readonly attempt: number | null;
  readonly actionable: boolean;
  readonly producerTime: string | null;
  /** It comes in a report, which only the worker that holds the attempt may send. */
  readonly isReport?: boolean;
}

export interface EventReceipt {
  readonly eventId: number;
  readonly commandsGenerated: number;
  readonly duplicate: boolean;
  readonly late: boolean;
  readonly stale: boolean;
  readonly executionStatus: ExecutionStatus;
}

export interface RerunRequest {
  /** Laid over the old inputs key by key. */
  readonly workload: JsonMap;
  readonly version: number | 'same' | 'latest';
  readonly fromStep: string | null;
  readonly resourceKind: string | null;
  readonly reason: string | null;
  readonly trace: string | null;
}

export interface ExecutionService {
  start(request: StartRequest): Promise<StartReceipt>;
  /** Starts anew what an execution ran (api 2.3.10). Throws what `start` throws, and validation_error for the step. */
  rerun(executionId: number, request: RerunRequest): Promise<StartReceipt>;
  cancel(
    executionId: number,
    options: { reason: string; cascade: boolean; by: 'api' | 'stop' },
  ): Promise<CancelReceipt>;
  cleanup(options: {
    olderThanMinutes: number;
    dryRun: boolean;
    /** Whether the caller may end this one; absent: all. */
    mayEnd?: (executionId: number) => Promise<boolean>;
  }): Promise<CleanupReceipt>;
  finalize(
    executionId: number,
    options: { status: 'completed' | 'failed'; reason: string; error: string | null },
  ): Promise<{ status: 'finalized' | 'already_completed'; message: string }>;
  recordEvent(input: EventInput): Promise<EventReceipt>;
  /** As far as what was seen of it, at least. Throws `not_found`. */
  insight(seen: Seen): Promise<ExecutionInsight>;
  /** Resolves when the execution has ended or the signal aborts; the row as it is then. */
  whenEnded(executionId: number, signal: AbortSignal): Promise<ExecutionRow>;
  /** Calls back after each commit that touched this execution; returns the unsubscribe. */
  follow(executionId: number, onChange: (lastEventId: number, status: ExecutionStatus) => void): () => void;
}

// ------------------------------------------------------------------ batches

export interface BatchRequest {
  readonly executionId: number;
  readonly events: readonly Omit<EventInput, 'executionId'>[];
  readonly workerId: string | null;
  readonly idempotencyKey: string | null;
  /** SHA-256 of the canonical body, hex. */
  readonly bodyHash: string;
}

export interface BatchReceipt {
  readonly requestId: number;
  readonly eventIds: readonly number[];
  /** Accepted and not finished, this one included. */
  readonly queueDepth: number;
  readonly duplicate: boolean;
  readonly idempotencyKey: string | null;
}

export interface BatchService {
  /**
   * Stored with its job when it resolves. Throws not_found, validation_error, idempotency_conflict, queue_unavailable,
   * worker_unavailable, ack_timeout (stored or not: repeat with the same key), enqueue_error.
   */
  accept(request: BatchRequest): Promise<BatchReceipt>;
  find(requestId: number): Promise<BatchRow | null>;
  /** Calls back with each state that is new to this follower, the present one first; `error` while the store does not answer. */
  follow(requestId: number, onState: (row: BatchRow | 'unknown' | 'error') => void): () => void;
}

// ------------------------------------------------------------------ commands and workers

/** A command as a worker gets it; `src/wire/command.ts` gives it its wire form (api 3.1). */
export interface GrantedCommand {
  readonly row: CommandRow;
  readonly path: string;
  readonly version: number;
  readonly parentExecutionId: number | null;
  /** One task or a list of tasks, unrendered (machines/playbook/tool-config.ts). */
  readonly toolConfig: Json;
  readonly timeoutSeconds: number;
  readonly leaseSeconds: number;
  readonly iterationTotal: number | null;
  /** W3C `traceparent` and `tracestate`. */
  readonly trace: string | null;
  readonly tracestate: string | null;
}

export interface ClaimRequest {
  readonly workerId: string;
  readonly max: number;
  readonly waitMs: number;
  readonly pools: readonly string[] | null;
  readonly toolKinds: readonly string[] | null;
  readonly claimId: string | null;
  /** Aborts the wait (connection dropped, shutdown). */
  readonly signal: AbortSignal;
}

export interface Hold {
  readonly commandId: number;
  readonly attempt: number;
}

export interface StopOrder {
  readonly commandId: number;
  readonly attempt: number;
  readonly reason: 'execution_cancelled' | 'execution_finished' | 'stale' | 'unknown' | 'timeout';
}

/** Exactly one of `outcome` and `events` (api 2.5.1). */
export interface Report {
  readonly reportId: string;
  readonly commandId: number;
  readonly attempt: number;
  readonly executionId: number | null;
  readonly outcome: ReportedOutcome | null;
  readonly events: readonly Omit<EventInput, 'executionId'>[] | null;
}

export interface ReportedOutcome {
  readonly outcome: 'ok' | 'error' | 'cancelled' | 'parked';
  readonly startedAt: string | null;
  readonly durationMs: number | null;
  /** Tool data (ok), or data of a failed tool (error). Undefined when stored apart. */
  readonly data?: Json;
  readonly reference?: {
    readonly ref: string;
    readonly store: string;
    readonly bytes: number;
    readonly sha256: string;
  };
  readonly summary?: JsonMap;
  readonly error?: JsonMap;
  readonly childExecutionId?: number;
  /** Instead of a child: the command waits this long for its next try, which goes on from `state` (language 7.7). */
  readonly resume?: {
    readonly afterSeconds: number;
    /** What is left of the step's time, from now. */
    readonly timeoutSeconds: number;
    readonly state: Json;
  };
  /** `ctx` writes of the command, by variable path (`a` or `a.b`). */
  readonly ctx: JsonMap;
  readonly tasks: JsonMap;
  readonly failedTask?: string | null;
  readonly warnings: readonly string[];
  readonly log: JsonMap | null;
}

export interface ReportReceipt {
  readonly reportId: string;
  readonly commandId: number;
  readonly attempt: number;
  readonly result: 'accepted' | 'duplicate' | 'stale' | 'late' | 'unknown' | 'invalid' | 'deferred';
  readonly eventIds: readonly number[];
  readonly commandsGenerated: number;
  readonly executionStatus: ExecutionStatus | null;
  readonly error: string | null;
}

export interface ExchangeRequest {
  readonly workerId: string;
  readonly instance: string | null;
  readonly status: 'ready' | 'draining';
  readonly holding: readonly Hold[];
  readonly reports: readonly Report[];
  readonly claim: ClaimRequest | null;
}

export interface ExchangeReceipt {
  readonly reports: readonly ReportReceipt[];
  readonly commands: readonly GrantedCommand[];
  readonly stop: readonly StopOrder[];
  readonly pending: number;
}

export interface CommandService {
  /** Claims one by id (api 2.4.1). Throws not_found, active_claim, already_terminal, worker_draining, attempts_exhausted. */
  claim(commandId: number, workerId: string, claimId: string | null): Promise<GrantedCommand>;
  /** Throws unknown_worker, worker_draining. */
  claimMany(request: ClaimRequest): Promise<{ commands: readonly GrantedCommand[]; stop: readonly StopOrder[] }>;
  exchange(request: ExchangeRequest): Promise<ExchangeReceipt>;
  /** Throws not_found. */
  get(commandId: number): Promise<GrantedCommand>;
  /** Commands of one execution, with what it knows of them. */
  describe(execution: ExecutionRow, rows: readonly CommandRow[]): Promise<readonly GrantedCommand[]>;
}

export interface Registration {
  readonly name: string;
  readonly kind: 'worker_pool' | 'server_api' | 'broker';
  readonly runtime: Json;
  readonly uri: string | null;
  readonly status: string;
  readonly capacity: number;
  readonly pools: readonly string[];
  readonly toolKinds: readonly string[];
  readonly labels: JsonMap;
  readonly instance: string | null;
  readonly heartbeatSeconds: number;
  readonly offlineAfterSeconds: number;
  readonly pid: number | null;
  readonly hostname: string | null;
  readonly meta: JsonMap;
  readonly version: string | null;
}

/** A row of `core.runtime`, with ages by the database's clock. */
export interface WorkerRow extends Registration {
  readonly runtimeId: number;
  /** ISO; when this instance registered. */
  readonly registeredAt: string;
  readonly heartbeatAt: string;
  readonly openCommands: number;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** What claim arbitration needs to know about a holder (api 4.2). */
export interface Holder {
  readonly name: string;
  readonly status: string;
  readonly registeredAt: number;
  readonly heartbeatAt: number;
  readonly offlineAfterSeconds: number;
}

export interface WorkerService {
  register(registration: Registration): Promise<WorkerRow>;
  /** Throws unknown_worker unless a registration is given. */
  heartbeat(
    name: string,
    options: { registration: Registration | null; status: string | null; commands: readonly Hold[] },
  ): Promise<{ recreated: boolean; runtimeId: number; stop: readonly StopOrder[] }>;
  deregister(name: string, kind: string | null): Promise<{ released: number }>;
  list(filter: { runtime?: string; status?: string; kind?: string; pool?: string }): Promise<readonly WorkerRow[]>;
  /** The registered worker, from memory when fresh. Null: no row. */
  find(name: string): Promise<WorkerRow | null>;
  /** As it is now, whatever another process has done with it a moment ago. */
  look(name: string): Promise<WorkerRow | null>;
  holder(name: string): Promise<Holder | null>;
  /** Any call that names a worker counts as its heartbeat; batched, never written on the hot path. */
  seen(name: string): void;
  /** An open long poll counts as a heartbeat for as long as it is open. */
  polling(name: string): { close(): void };
}

// ------------------------------------------------------------------ catalog, credentials, results, SQL

export interface CatalogEntry {
  readonly catalogId: number;
  readonly path: string;
  readonly version: number;
  readonly kind: string;
  readonly name: string;
  readonly description: string | null;
  readonly status: 'active' | 'archived';
  readonly content: string;
  readonly payload: JsonMap;
  readonly layout: Json;
  readonly meta: JsonMap;
  readonly tasksCount: number;
  readonly createdBy: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly archivedAt: string | null;
}

export interface CatalogService {
  /** Throws playbook_invalid (data.errors) or validation_error. */
  register(request: {
    content: string;
    resourceType: string | null;
    path: string | null;
    ifChanged: boolean;
  }): Promise<{ entry: CatalogEntry; unchanged: boolean; warnings: readonly Diagnostic[] }>;
  get(path: string, version: number | 'latest'): Promise<CatalogEntry | null>;
  byId(catalogId: number): Promise<CatalogEntry | null>;
  list(filter: {
    q?: string;
    kinds?: readonly string[];
    pathPrefix?: string;
    afterPath?: string;
    limit: number;
    versions: 'all' | 'latest';
    includeArchived: boolean;
    includeContent: boolean;
    capabilities?: readonly string[];
    agentOnly?: boolean;
    /** Those that are tools for others (api 2.14.4): marked so, or all that do not forbid it. */
    exposure?: 'marked' | 'all';
    /** `path` (the default) or newest first. */
    order?: 'path' | 'newest';
  }): Promise<readonly CatalogEntry[]>;
  /** How many entries a list would have without `limit` and `afterPath`. */
  count(filter: Parameters<CatalogService['list']>[0]): Promise<number>;
  versions(path: string): Promise<readonly { entry: CatalogEntry; sha256: string; executions: number }[]>;
  archive(id: string): Promise<{ path: string; archived: readonly number[] }>;
  /** New status and meta of one version (2.2.9); `id` is a catalog id, else a path (its newest version). Null meta keeps it, a map is merged shallowly. Throws not_found. */
  update(id: string, change: { status: 'active' | 'archived' | null; meta: JsonMap | null }): Promise<CatalogEntry>;
  /** The entry digits or a path mean (2.2.8): digits are tried as a catalog id first. Newest version of a path, archived ones included. */
  find(id: string): Promise<CatalogEntry | null>;
  /** The document a text is, or what is wrong with it; nothing is stored. */
  read(content: string, resourceType: string | null): Promise<CatalogReading>;
  validate(
    content: string,
    resourceType: string | null,
  ): Promise<{ valid: boolean; diagnostics: readonly Diagnostic[]; path: string | null; kind: string | null }>;
  /** The entry and playbook a start request means; throws what api 2.3.1 tells (not_found, kind_not_executable, resource_kind_required, playbook_invalid). */
  executable(request: {
    path?: string;
    catalogId?: number;
    version?: number | 'latest';
    resourceKind?: string;
    /** What it is for, and so what the caller must be allowed to do; `execute` by default. */
    purpose?: 'execute' | 'view';
  }): Promise<{ entry: CatalogEntry; playbook: Playbook }>;
  /** Whether the caller may do this with a version, archived or not. Throws forbidden. */
  permit(catalogId: number, permission: Permission): Promise<void>;
  /** The rules of one version, or of the newest of a path, whoever asks; none where there is no such entry. */
  accessRules(which: number | string): Promise<AccessRules>;
  /** Every version that has rules, archived or not. */
  ruled(): Promise<readonly { readonly catalogId: number; readonly rules: AccessRules }[]>;
  /** The parsed playbook of a version that has executions; cached for ever, versions are immutable. */
  playbook(catalogId: number): Promise<{ entry: CatalogEntry; playbook: Playbook }>;
}

export interface Credential {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly description: string | null;
  readonly tags: readonly string[];
  readonly meta: JsonMap | null;
  readonly schema: JsonMap | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}

export interface CredentialService {
  save(request: {
    name: string;
    type: string;
    data: JsonMap;
    schema: JsonMap | null | undefined;
    meta: JsonMap | null;
    description: string | null;
    tags: readonly string[];
  }): Promise<Credential>;
  /** By id (digits) first, then name. Throws not_found. */
  get(identifier: string): Promise<Credential>;
  reveal(
    identifier: string,
    audit: { executionId: number | null; workerId: string | null; requestId: string },
  ): Promise<Credential & { readonly data: JsonMap }>;
  list(filter: { type?: string; q?: string; tag?: string }): Promise<readonly Credential[]>;
  /** Changes the given fields only (2.8.5); `data` is replaced as a whole. Throws not_found. */
  patch(
    identifier: string,
    change: {
      type?: string;
      data?: JsonMap;
      schema?: JsonMap | null;
      meta?: JsonMap | null;
      description?: string | null;
      tags?: readonly string[];
    },
  ): Promise<Credential>;
  remove(identifier: string): Promise<Credential>;
}

export interface StoredResult {
  readonly ref: string;
  readonly name: string;
  readonly store: string;
  readonly scope: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly summary: JsonMap;
  readonly createdAt: string;
  readonly expiresAt: string | null;
}

/** JSON as it was stored. */
export interface ResultText {
  /** UTF-8. */
  readonly data: Uint8Array;
  /** Hex, of the bytes. */
  readonly sha256: string;
}

export interface ResultService {
  put(
    executionId: number,
    request: {
      name: string;
      data: Json;
      scope: string;
      sourceStep: string | null;
      ttlSeconds: number | null;
      mediaType: string;
      commandId: number | null;
      select: readonly { path: string; as: string }[];
    },
  ): Promise<StoredResult>;
  /** The payload, or the part of it a path such as `rows[0].id` selects; null when there is none. */
  resolve(ref: string, path?: string): Promise<ResultText | null>;
  list(executionId: number): Promise<readonly StoredResult[]>;
  newest(executionId: number, name: string): Promise<StoredResult | null>;
  /** Deletes stored results of an ended execution (all scopes when null). Throws not_found, validation_error while it runs. */
  remove(executionId: number, scope: string | null): Promise<number>;
}

export interface SqlService {
  /** Throws sql_error, sql_not_allowed, not_found, validation_error. */
  execute(request: {
    query: string;
    parameters: readonly Json[];
    credentialName: string | null;
    schema: string | null;
    maxRows: number;
    timeoutSeconds: number;
  }): Promise<{ result: readonly JsonMap[]; rowCount: number; columns: readonly string[]; truncated: boolean }>;
}

// ------------------------------------------------------------------ keychain

/** An entry as its users name it (api 4.4). `local` and `shared` need the execution that asks. */
export interface KeychainAddress {
  readonly catalogId: number;
  readonly name: string;
  readonly scope: EntryScope;
  readonly executionId: number | null;
  /** Helps to find the root of an execution that is not known here. */
  readonly parentExecutionId?: number | null;
}

export interface KeychainDraft extends KeychainAddress {
  readonly tokenData: JsonMap;
  readonly credentialType: string;
  readonly cacheType: 'secret' | 'token';
  /** Wins over `ttlSeconds`. ISO 8601 UTC. */
  readonly expiresAt: string | null;
  readonly ttlSeconds: number | null;
  readonly autoRenew: boolean;
  readonly renewConfig: RenewConfig | null;
  readonly schema: JsonMap | null;
}

/** An entry without token and renewal data. */
export interface KeychainListing {
  readonly name: string;
  readonly cacheKey: string;
  readonly scope: EntryScope;
  readonly credentialType: string;
  readonly cacheType: 'secret' | 'token';
  readonly expiresAt: string;
  readonly expired: boolean;
  readonly autoRenew: boolean;
  readonly accessCount: number;
}

/** A row of `core.keychain_event`. */
export interface KeychainLogRow {
  readonly cacheKey: string;
  readonly seq: number;
  readonly type: string;
  readonly at: string;
  readonly context: JsonMap;
}

export interface KeychainService {
  /** Counts a read that is answered with data, in its own answer. With `claimRenewal` one asker at a time may renew. */
  read(
    address: KeychainAddress & { readonly claimRenewal: boolean; readonly workerId: string | null },
  ): Promise<Reading<JsonMap>>;
  /** Stores or replaces. Throws not_found (no such catalog entry), schema_validation_failed, validation_error. */
  store(draft: KeychainDraft): Promise<{ cacheKey: string; expiresAt: string; ttlSeconds: number }>;
  /** False: nothing was there. */
  remove(address: KeychainAddress): Promise<boolean>;
  list(catalogId: number): Promise<readonly KeychainListing[]>;
  /** By cache key and number, after the given row. */
  log(filter: {
    catalogId: number;
    name: string | null;
    after: { cacheKey: string; seq: number } | null;
    limit: number;
  }): Promise<readonly KeychainLogRow[]>;
  /** Removes entries that expired long ago (api 4.4); answers how many. For the daily job. */
  sweep(limit: number): Promise<number>;
}

// ------------------------------------------------------------------ reads

export interface EventPageRequest {
  readonly page: number;
  readonly pageSize: number;
  readonly sinceEventId: number | null;
  readonly untilEventId: number | null;
  /** Exact types, or prefixes ending in `*`. */
  readonly types: readonly string[];
  readonly statuses: readonly string[];
  readonly step: string | null;
  readonly commandId: number | null;
  readonly q: string | null;
  readonly order: 'asc' | 'desc';
}

export interface ExecutionListRequest {
  readonly page: number;
  readonly pageSize: number;
  readonly beforeExecutionId: number | null;
  readonly statuses: readonly ExecutionStatus[];
  /** Exact, or a prefix ending in `*`. */
  readonly path: string | null;
  readonly catalogId: number | null;
  readonly kind: string | null;
  readonly parentExecutionId: number | null;
  readonly rootExecutionId: number | null;
  readonly rootsOnly: boolean;
  readonly startedAfter: string | null;
  readonly startedBefore: string | null;
  readonly minDurationSeconds: number | null;
  readonly labels: readonly (readonly [string, string])[];
  readonly q: string | null;
  readonly error: string | null;
  /** Only runs that nothing alive or planned can move (api 2.3.13). */
  readonly stuck?: boolean;
  /** Versions whose runs are left out. */
  readonly exceptCatalogIds?: readonly number[];
  readonly order: 'start_time' | '-start_time' | 'duration' | '-duration';
}

/** Questions that change nothing; answered from rows, never from actors. */
export interface ReadService {
  execution(executionId: number): Promise<ExecutionRow | null>;
  executions(request: ExecutionListRequest): Promise<{
    readonly rows: readonly ExecutionRow[];
    readonly total: number;
    readonly totalIsExact: boolean;
    /** There is a page after this one. */
    readonly hasMore: boolean;
  }>;
  /** `total` is null when `sinceEventId` is given. */
  events(
    executionId: number,
    request: EventPageRequest,
  ): Promise<{ readonly events: readonly LogEvent[]; readonly total: number | null; readonly hasMore: boolean }>;
  commands(filter: {
    executionId?: number;
    statuses?: readonly CommandStatus[];
    pool?: string;
    workerId?: string;
    olderThanSeconds?: number;
    after?: number;
    /** Versions whose commands are left out. */
    exceptCatalogIds?: readonly number[];
    limit: number;
  }): Promise<readonly CommandRow[]>;
  dashboard(): Promise<{
    totalExecutions: number;
    running: number;
    completed: number;
    failed: number;
    cancelled: number;
    playbooks: number;
    workers: number;
    queueDepth: number;
    asOf: string;
  }>;
  health(): Promise<{ database: 'ok' | 'down'; schemaVersion: number | null }>;
  schema(): Promise<{ version: number; tables: readonly string[]; missing: readonly string[] }>;
  poolStatus(): { min: number; max: number; size: number; available: number; waiting: number };
}

// ------------------------------------------------------------------ operators

export interface AuditFilter {
  readonly action: string | null;
  readonly actor: string | null;
  readonly target: string | null;
  readonly since: string | null;
  readonly until: string | null;
  /** Rows older than this one. */
  readonly after: number | null;
  readonly limit: number;
}

export interface StoredAudit {
  readonly auditId: number;
  readonly at: string;
  readonly actor: string | null;
  readonly role: string | null;
  readonly action: string;
  readonly target: string | null;
  readonly outcome: string;
  readonly requestId: string | null;
  readonly ip: string | null;
  readonly detail: JsonMap;
}

export interface ExplanationService {
  /** Why an execution waits. Throws `not_found`. */
  of(executionId: number): Promise<Explanation>;
}

export interface AdminService {
  readonly keys: KeyService;
  /** One sweep now, here or by the process that holds the lease. */
  sweep(max: number | null): Promise<SweepAnswer>;
  reaper(): Promise<ReaperStatus & { readonly lease: LeaseRow | null }>;
  leases(): Promise<readonly LeaseRow[]>;
  invariants(): Promise<InvariantReport>;
  /** `isHere` false: another process holds the lease and does it in its own time. */
  reconcile(): Promise<Reconciled & { readonly isHere: boolean }>;
  audit(filter: AuditFilter): Promise<readonly StoredAudit[]>;
  drain(isDraining: boolean): Promise<void>;
}

/** Everything the routes get. */
/** Dry runs of playbooks (api 2.2.16). */
export interface SimulationService {
  /** The answer as JSON text. Throws playbook_invalid, kind_not_executable, and UnavailableError when too many wait. */
  simulate(request: SimulationRequest): Promise<string>;
}

/** Tests of a playbook as an editor keeps them; what they say is the editor's business. */
export interface TestSuite {
  readonly suiteId: string;
  readonly playbookPath: string;
  readonly tests: readonly JsonMap[];
  readonly metadata: JsonMap;
  /** Null: never stored. */
  readonly updatedAt: string | null;
}

export interface TestSuiteService {
  find(suiteId: string): Promise<TestSuite | null>;
  /** Stores or replaces. */
  save(suite: Omit<TestSuite, 'updatedAt'>): Promise<TestSuite>;
  /** False: there was none. */
  remove(suiteId: string): Promise<boolean>;
}

export interface SchemaService {
  /** Applies migrations that are missing; answers the version there is now and the files that were applied. */
  init(): Promise<{ readonly version: number; readonly applied: readonly string[] }>;
}

export interface Services {
  readonly executions: ExecutionService;
  readonly batches: BatchService;
  readonly commands: CommandService;
  readonly workers: WorkerService;
  readonly catalog: CatalogService;
  readonly credentials: CredentialService;
  readonly keychain: KeychainService;
  readonly results: ResultService;
  readonly sql: SqlService;
  readonly reads: ReadService;
  readonly admin: AdminService;
  readonly inspection: InspectionService;
  readonly explanations: ExplanationService;
  readonly toolServers: ToolServerService;
  readonly sessions: SessionService;
  readonly tokens: TokenService;
  readonly identities: IdentityService;
  readonly denials: DenialLog;
  readonly executionAccess: ExecutionAccess;
  readonly simulation: SimulationService;
  readonly context: ContextService;
  readonly variables: VariableService;
  readonly schedules: ScheduleService;
  readonly testSuites: TestSuiteService;
  readonly schema: SchemaService;
}
