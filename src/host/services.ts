/**
 * The composition root: ports on PostgreSQL, actors over the ports, services over both. The only place that knows
 * everything; started from the inside out, stopped in the reverse order.
 */

import { createHash, randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { createBatches } from '../../actors/batches.ts';
import { createCatalogService } from '../../actors/catalog-service.ts';
import { createContextService } from '../../actors/context-service.ts';
import { createCredentialReader, createCredentialService } from '../../actors/credential-service.ts';
import { createEngine, type RunningEngine } from '../../actors/engine.ts';
import { DomainError } from '../../actors/errors.ts';
import { createExecutionAccess, createRuleNews } from '../../actors/execution-access.ts';
import { createInspector } from '../../actors/inspector.ts';
import { createKeychainPreparation, type KeychainSources, SourceError } from '../../actors/keychain-preparation.ts';
import { createKeychainService } from '../../actors/keychain-service.ts';
import type { Bus } from '../../actors/ports.ts';
import { createResultService } from '../../actors/result-service.ts';
import { createScheduleService } from '../../actors/schedule-service.ts';
import { createScheduler } from '../../actors/scheduler.ts';
import type { CredentialService, Services } from '../../actors/services.ts';
import { createSqlService } from '../../actors/sql-service.ts';
import { createToolServerService, type ToolServerPorts } from '../../actors/tool-servers.ts';
import { createUpkeep } from '../../actors/upkeep.ts';
import { createVariableService } from '../../actors/variable-service.ts';
import { Workers } from '../../actors/worker-service.ts';
import { hostsIn, unreadableHosts } from '../../machines/schema/credential-hosts.ts';
import { busKindOf, createBus } from '../bus/create-bus.ts';
import { createClock, type DatabaseClock } from '../clock.ts';
import { type Config, isAuditRequired, type SqlMode, sqlModeOf } from '../config.ts';
import { configuredKeys, openKeyRing, openVault } from '../crypto/vault.ts';
import { createDocumentReader } from '../documents/document-reader.ts';
import { startBoss } from '../jobs/boss.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import { createSimulationService } from '../simulate/simulation-service.ts';
import { createAuditStore, insertAudit } from '../store/audit.ts';
import { createAutoResumeStore } from '../store/auto-resume.ts';
import { createBatchStore } from '../store/batches.ts';
import { createCatalogStore } from '../store/catalog.ts';
import { createCounts } from '../store/counts.ts';
import { createCredentialStore } from '../store/credentials.ts';
import { canariesIn, createCanaryStore } from '../store/encryption-keys.ts';
import { createIds } from '../store/ids.ts';
import { createInvariantStore } from '../store/invariants.ts';
import { createKeychainStore } from '../store/keychain.ts';
import { createLeaseStore } from '../store/leases.ts';
import { migrate } from '../store/migrate.ts';
import { createHousekeepingStore } from '../store/partitions.ts';
import { createDatabase } from '../store/pool.ts';
import { ensureQueryLogin, excessOf } from '../store/query-login.ts';
import { createReads } from '../store/reads.ts';
import { createReconcileStore } from '../store/reconcile.ts';
import { createResultStore } from '../store/results.ts';
import { createRuntimeStore } from '../store/runtime.ts';
import { createScheduleStore } from '../store/schedules.ts';
import { createSealedStore } from '../store/sealed-values.ts';
import { createSessionStore } from '../store/sessions.ts';
import { createSqlRunner } from '../store/sql.ts';
import { createStore } from '../store/store.ts';
import { createSweepStore } from '../store/sweeps.ts';
import { createTestSuiteStore } from '../store/test-suites.ts';
import { createTokenStore } from '../store/tokens.ts';
import { createTrail } from '../store/trail.ts';
import { createVariableStore } from '../store/variables.ts';
import { noTracing, type Tracing } from '../telemetry/tracer.ts';
import { zoneOffset } from '../time-zones.ts';
import { composeAccess } from './access.ts';
import type { Callers } from './caller.ts';
import { Closing } from './closing.ts';
import { describeProcess, readGauges } from './gauges.ts';
import { partOfJson } from './json-part.ts';
import { writeJson } from './json-slices.ts';

export interface RunningServices {
  readonly services: Services;
  readonly engine: RunningEngine;
  readonly clock: DatabaseClock;
  readonly bus: Bus;
  /** State of the job queue. */
  jobs(): 'ok' | 'degraded' | 'down';
  /** An operator drains this process. */
  draining(): boolean;
  /** From now on no new starts, claims and batches; what is under way goes on. */
  drain(): void;
  /** Begins to heal what a crash left, and to look after workers. */
  start(): Promise<void>;
  /** Accepted work is written, then everything is closed. Idempotent. */
  stop(): Promise<void>;
}

export interface ServicesOptions {
  readonly log: Log;
  readonly metrics: Metrics;
  readonly tracer?: Tracing;
  readonly callers: Callers;
  /** Of the package. */
  readonly version: string;
  /** The database is the one that comes with the package: it may be given a login for the SQL endpoint. */
  readonly embedded: boolean;
  /** Where workers send their calls. */
  readonly serverUrl: () => string;
  /** Sends a token request; throws SourceError where there is no answer. */
  readonly requestToken: KeychainSources['request'];
  /** Asks a secret manager; throws SourceError where the secret cannot be had. */
  readonly askForSecret: KeychainSources['managed'];
  /** Asks a tool server which tools it has. */
  readonly listTools: ToolServerPorts['listTools'];
  /** Ends a start that waits. */
  readonly signal?: AbortSignal | undefined;
}

const NESTING_MAX = 32;
const CHORE_ROWS = 1_000;
const DENIALS_MAX = 1_000;
const ACTORS_MAX = 4_096;
const PAYLOAD_BYTES_MAX = 128 * 1024 * 1024;

/** Throws ConfigError or SchemaError (exit 78), or UnavailableError when the database does not answer. */
export async function startServices(config: Config, options: ServicesOptions): Promise<RunningServices> {
  const { log, metrics, callers, tracer = noTracing } = options;
  const url = config.databaseUrl;
  if (url === null) throw new Error('a server needs a database: start the embedded one first');
  // Before the database is touched.
  busKindOf(config);
  const closing = new Closing(log);
  const stop = (): Promise<void> => closing.stop();
  try {
    const keyRing = {
      keys: configuredKeys(config),
      dataDir: config.dataDir,
      allowGenerate: config.authMode === 'open' && isLoopback(config.host),
    };
    const schema = await migrate(url, {
      signal: options.signal,
      before: async (found) => {
        await openKeyRing(keyRing, await canariesIn(found), log.child('vault'));
      },
    });
    if (schema.applied.length > 0) log.info('The database schema was brought up to date', { version: schema.version });
    const database = createDatabase(
      {
        url,
        listenUrl: config.listenUrl ?? url,
        poolMin: Math.min(config.poolMin, config.poolMax),
        poolMax: config.poolMax,
        acquireTimeoutSeconds: config.poolAcquireTimeoutSeconds,
        waitingMax: config.poolWaitingMax,
      },
      log.child('database'),
      metrics,
    );
    closing.add('database', () => database.close());
    const clock = await createClock(database);
    closing.add('clock', () => clock.stop());
    const ids = createIds(database);
    await ids.reserve(1);
    const boss = await startBoss(url, log.child('jobs'));
    closing.add('jobs', () => boss.stop());
    const store = createStore(database, boss.statements);
    const bus = await createBus(config, {
      databaseUrl: url,
      serverUrl: options.serverUrl,
      log: log.child('bus'),
      meter: metrics,
    });
    closing.add('bus', () => bus.close());

    const vault = await openVault(keyRing, createCanaryStore(database.reads), log.child('vault'));
    const credentialStore = createCredentialStore(database.reads);
    const reader = createDocumentReader();
    closing.add('document reader', () => reader.close());
    const news = createRuleNews(bus);
    const catalog = createCatalogService({
      store: createCatalogStore(database.reads, database.hot.lookups),
      read: (text, reading) => reader.read(text, reading),
      ids,
      caller: callers.current,
      onRulesChanged: news.tell,
    });
    const simulation = createSimulationService({ catalog });
    closing.add('simulation', () => simulation.close());
    const sqlMode = sqlModeOf(config);
    if (sqlMode === 'write') {
      log.warn(
        'The SQL endpoint may change the service’s own database: SVC_POSTGRES_EXECUTE=write is for one developer',
      );
    }
    const ownUrl = await queryUrl(sqlMode, config, options.embedded, url);
    // The start does not wait for it.
    if (sqlMode === 'read' && config.queryDatabaseUrl !== null) void warnOfExcess(config.queryDatabaseUrl, log);
    const auditPolicy = { required: isAuditRequired(config), log: log.child('audit') };
    const hash = async (text: string) => sha256(text);
    const sql = createSqlService({
      mode: sqlMode,
      ownDatabase: ownUrl !== null,
      runner: createSqlRunner({ ownUrl, readOnly: sqlMode !== 'write' }),
      credential: createCredentialReader(credentialStore, vault),
      audit: (row) => insertAudit(database.reads, row),
      sha256: hash,
      ids,
      caller: callers.current,
    });
    const workers = new Workers({
      store: createRuntimeStore(database.reads),
      bus,
      ids,
      clock,
      log: log.child('workers'),
      meter: metrics,
      staleSeconds: config.workerHeartbeatStaleSeconds,
      sweepIntervalSeconds: config.runtimeSweepIntervalSeconds,
    });
    const keychainStore = createKeychainStore(database.reads);
    const keychain = createKeychainService({
      store: keychainStore,
      vault,
      ids,
      clock,
      caller: callers.current,
      log: log.child('keychain'),
      meter: metrics,
      refreshSeconds: config.keychainRefreshSeconds,
      audit: auditPolicy,
    });
    const credentials = createCredentialService({
      store: credentialStore,
      vault,
      ids,
      caller: callers.current,
      meter: metrics,
      audit: auditPolicy,
    });
    const preparation = createKeychainPreparation({
      keychain,
      store: keychainStore,
      vault,
      limits: { steps: config.templateMaxSteps, outputBytes: config.templateMaxOutputBytes },
      log: log.child('keychain'),
      sources: {
        request: options.requestToken,
        managed: options.askForSecret,
        secret: (variable) => config.secrets[variable],
        credential: (name, executionId) => revealed(credentials, name, executionId, callers),
        deadline: (ms) => AbortSignal.timeout(ms),
      },
    });
    const engine = createEngine(
      {
        store,
        ids,
        clock,
        bus,
        log: log.child('engine'),
        meter: metrics,
        tracer,
        catalog,
        workers,
        keychain: preparation,
        caller: callers.current,
        sha256,
      },
      {
        limits: {
          maxStepActivations: config.maxStepActivations,
          loopMaxItems: config.loopMaxItems,
          loopMaxInFlight: config.loopMaxInFlight,
          inlineMaxBytes: config.resultInlineMaxBytes,
          maxDenials: DENIALS_MAX,
          // No clock on the server: a decision must not depend on how fast the machine is.
          template: { steps: config.templateMaxSteps, outputBytes: config.templateMaxOutputBytes },
        },
        policy: {
          leaseSeconds: config.claimLeaseSeconds,
          heartbeatStaleSeconds: config.workerHeartbeatStaleSeconds,
          hardTimeoutSeconds: config.healthyHardTimeoutSeconds ?? config.reaperHardTimeoutSeconds,
        },
        pendingRetrySeconds: config.pendingRetrySeconds,
        stepTimeoutSeconds: config.stepTimeoutSeconds,
        commandMaxAttempts: config.commandMaxAttempts,
        cancelCheckSeconds: config.cancelCheckSeconds,
        nestingMax: NESTING_MAX,
        flushIntervalMs: config.flushIntervalMs,
        flushMaxTurns: config.flushMaxTurns,
        mailboxMax: config.mailboxMax,
        actorsMax: ACTORS_MAX,
        payloadBytesMax: PAYLOAD_BYTES_MAX,
      },
    );
    const release = (name: string): void => {
      engine.recovery.releaseWorker(name).catch((error: unknown) => {
        log.warn('The commands of a worker wait for the next sweep', { worker_id: name, error });
      });
    };
    workers.connect({
      onOffline: release,
      onRestart: release,
      // A heartbeat comes every few seconds at most, and is not waited for: its answer is the last word for as long.
      stopOrders: (name, holds) => engine.commands.stopOrders(name, holds, true),
      async sweeper() {
        const { lease, row } = await upkeep.leases.ask('runtime_sweeper');
        if (lease !== null || row === null) return { isMine: true };
        return { isMine: false, againInMs: Date.parse(row.expiresAt) - clock.now() + 1 };
      },
    });
    closing.add('workers', () => workers.stop());
    closing.add('engine', () => engine.stop());

    const holder = `srv-${randomBytes(6).toString('hex')}`;
    const batches = createBatches(
      {
        store,
        batches: createBatchStore(database),
        jobs: boss,
        flusher: engine.flusher,
        ids,
        clock,
        bus,
        log: log.child('batches'),
        meter: metrics,
        tracer,
        holder,
        seen: (name) => workers.seen(name),
      },
      {
        enqueueTimeoutSeconds: config.batchEnqueueTimeoutSeconds,
        queueMax: config.batchQueueMax,
        workers: config.batchWorkers,
        processingTimeoutSeconds: config.batchProcessingTimeoutSeconds,
        pollSeconds: config.batchStreamPollSeconds,
      },
    );
    // Jobs under way still need the engine.
    closing.add('batches', async () => {
      await batches.stop();
      await boss.stop();
    });

    const reads = createReads(database);
    let isDraining = false;
    const drain = (on: boolean): void => {
      isDraining = on;
      engine.commands.drain(on);
      engine.executions.drain(on);
      batches.drain(on);
    };
    const { reads: pool } = database;
    const upkeep = createUpkeep(
      {
        stores: {
          leases: createLeaseStore(pool),
          sweeps: createSweepStore(pool),
          reconcile: createReconcileStore(pool),
          interrupted: createAutoResumeStore(pool),
          housekeeping: createHousekeepingStore(pool),
          invariants: createInvariantStore(pool),
          sealed: createSealedStore(pool),
          audit: createAuditStore(pool),
          engine: store,
        },
        engine,
        reads,
        workers,
        vault,
        ids,
        clock,
        bus,
        log: log.child('upkeep'),
        meter: metrics,
        tracer,
        caller: callers.current,
        holder,
        card: { uri: config.publicUrl, version: options.version, pid: process.pid, hostname: hostname() },
        healers: [{ kind: 'batch', heal: () => batches.heal() }],
        chores: [() => keychain.sweep(CHORE_ROWS)],
        drain,
      },
      {
        leaseSeconds: config.leaseSeconds,
        reaper: {
          enabled: config.reaperEnabled,
          intervalSeconds: config.reaperIntervalSeconds,
          maxPerRun: config.reaperMaxPerRun,
          pendingRetrySeconds: config.pendingRetrySeconds,
          workerStaleSeconds: config.reaperWorkerStaleSeconds,
          hardTimeoutSeconds: config.reaperHardTimeoutSeconds,
        },
        reconcileIntervalSeconds: config.reconcileIntervalSeconds,
        autoResume: {
          mode: config.autoResumeMode,
          windowMinutes: config.resumeWindowMinutes,
          settleSeconds: config.autoResumeSettleSeconds,
        },
        partitionIdSpan: config.partitionIdSpan,
        kept: {
          executionDays: config.retentionDays,
          auditDays: config.auditRetentionDays,
          keychainLogDays: config.keychainLogRetentionDays,
        },
        workerStaleSeconds: config.workerHeartbeatStaleSeconds,
      },
    );
    closing.add('upkeep', () => upkeep.stop());

    const scheduleStore = createScheduleStore(pool);
    const scheduler = createScheduler({
      store: scheduleStore,
      executions: engine.executions,
      isRunning: async (executionId) => (await store.execution(executionId))?.status === 'running',
      zone: zoneOffset,
      leases: upkeep.leases,
      clock,
      bus,
      log: log.child('schedules'),
      meter: metrics,
    });
    closing.add('schedules', () => scheduler.stop());

    const executionAccess = createExecutionAccess({
      reads,
      rulesOf: (which) => catalog.accessRules(which),
      ruled: () => catalog.ruled(),
      caller: callers.current,
      clock,
      news,
    });
    const services: Services = {
      executions: engine.executions,
      batches,
      commands: engine.commands,
      workers,
      catalog,
      credentials,
      keychain,
      results: createResultService({
        store: createResultStore(database.reads),
        ids,
        clock,
        write: writeJson,
        part: partOfJson,
      }),
      sql,
      reads: executionAccess.guarded(reads),
      executionAccess,
      admin: upkeep.admin,
      inspection: createInspector({
        trail: createTrail(pool),
        store,
        reads,
        keychain,
        batches,
        plan: (catalogId) => engine.supervisor.plan(catalogId),
        limits: engine.limits,
        clock,
        explain: upkeep.explain,
      }),
      explanations: { of: upkeep.explain },
      ...composeAccess(config, {
        sessions: createSessionStore(pool),
        tokens: createTokenStore(pool),
        insertAudit: (row) => insertAudit(pool, row),
        ids,
        clock,
        bus,
        log: log.child('access'),
        caller: callers.current,
      }),
      simulation,
      toolServers: createToolServerService({
        catalog,
        executions: engine.executions,
        listTools: options.listTools,
      }),
      context: createContextService({
        supervisor: engine.supervisor,
        reads,
        clock,
        limits: {
          steps: config.templateMaxSteps,
          outputBytes: config.templateMaxOutputBytes,
          timeoutMs: config.templateTimeoutMs,
        },
      }),
      variables: createVariableService(createVariableStore(database.reads)),
      testSuites: createTestSuiteStore(pool),
      schedules: createScheduleService({
        store: scheduleStore,
        catalog,
        executions: engine.executions,
        ids,
        clock,
        caller: callers.current,
        zone: zoneOffset,
        onChange: () => scheduler.changed(),
      }),
      schema: { init: () => migrate(url) },
    };
    describeProcess(metrics, { version: options.version, schemaVersion: schema.version });
    metrics.beforeScrape(
      readGauges({
        metrics,
        engine,
        bus,
        log,
        counts: createCounts(database.reads),
        pool: () => database.reads.status(),
        batchDepth: () => batches.depth(),
      }),
    );
    return {
      services,
      engine,
      clock,
      bus,
      jobs: () => boss.state(),
      draining: () => isDraining,
      drain: () => drain(true),
      async start() {
        await upkeep.enrol();
        workers.start();
        await engine.start();
        await batches.start();
        upkeep.start();
        scheduler.start();
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The credential behind a keychain entry, with the trace every reveal leaves. */
async function revealed(credentials: CredentialService, name: string, executionId: number, callers: Callers) {
  const { requestId } = callers.current();
  try {
    const found = await credentials.reveal(name, { executionId, workerId: null, requestId: requestId ?? '' });
    const hosts = hostsIn(found.meta);
    if (hosts === 'unreadable') throw new SourceError(unreadableHosts(name));
    return { type: found.type, data: found.data, ...(hosts === null ? {} : { hosts }) };
  } catch (error) {
    if (error instanceof DomainError && error.code === 'not_found') return null;
    throw error;
  }
}

/** The login statements of the SQL endpoint use on the service's own database; null where there is none. */
async function queryUrl(mode: SqlMode, config: Config, embedded: boolean, url: string): Promise<string | null> {
  if (mode === 'off') return null;
  if (mode === 'write') return url;
  if (config.queryDatabaseUrl !== null) return config.queryDatabaseUrl;
  return embedded ? ensureQueryLogin(url, null) : null;
}

/** Statements run with the rights of this login, and a transaction that is read only holds few of them back. */
async function warnOfExcess(url: string, log: Log): Promise<void> {
  // Whoever sends a statement is told where it cannot be reached.
  const because = await excessOf(url).catch(() => []);
  if (because.length > 0) {
    log.warn('The login of SVC_QUERY_DATABASE_URL may do more than the SQL endpoint is meant to', { because });
  }
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.');
}

function sha256(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex');
}
