/** Services that answer with plain, complete values; a test replaces the calls it is about. */
import type { BatchRow, CommandRow, ExecutionRow } from '../../actors/ports.ts';
import type {
  CatalogEntry,
  Credential,
  ExecutionInsight,
  GrantedCommand,
  Registration,
  Services,
  StartReceipt,
  StoredResult,
  WorkerRow,
} from '../../actors/services.ts';
import type { LogEvent } from '../../machines/events.ts';
import { readCatalogDocument } from '../../machines/playbook/catalog-document.ts';
import { playbookOf, step } from '../support/playbooks.ts';
import { fakeInspection } from './fake-inspection.ts';

export const AT = '2026-11-20T10:15:02.113Z';
export const NOW_MS = Date.parse('2026-11-20T10:15:03.206Z');

export function batchRow(change: Partial<BatchRow> = {}): BatchRow {
  return {
    requestId: 41100,
    executionId: 41007,
    idempotencyKey: 'w7:41007:a1',
    bodyHash: '9f',
    state: 'completed',
    errorCode: null,
    message: null,
    eventIds: [9, 10, 11],
    eventCount: 3,
    commandsGenerated: 1,
    workerId: 'worker-7',
    deadlineAt: AT,
    queueWaitMs: 1.9,
    timings: { processing_ms: 6.1 },
    createdAt: AT,
    updatedAt: AT,
    ...change,
  };
}

export function executionRow(change: Partial<ExecutionRow> = {}): ExecutionRow {
  return {
    executionId: 41007,
    rootExecutionId: 41007,
    parentExecutionId: null,
    parentCommandId: null,
    parentEventId: null,
    rerunOf: null,
    catalogId: 2003,
    path: 'demo/greet',
    version: 3,
    kind: 'playbook',
    pool: 'shared',
    priority: 0,
    status: 'running',
    workload: { who: 'world' },
    result: null,
    resultRef: null,
    error: null,
    errorDetail: null,
    progressDetail: null,
    currentStep: 'start',
    progress: 0,
    lastEventId: 3,
    handledThrough: 3,
    lastEventType: 'command.issued',
    lastNodeName: 'start',
    engineVersion: 1,
    machineVersion: 1,
    openCommands: 1,
    nextWakeAt: null,
    startTime: AT,
    endTime: null,
    idempotencyKey: null,
    requestHash: null,
    labels: {},
    trace: null,
    createdBy: null,
    ...change,
  };
}

export function logEvent(eventId: number, change: Partial<LogEvent> = {}): LogEvent {
  return {
    eventId,
    causeId: eventId,
    type: 'report.note',
    status: 'completed',
    nodeId: 'start',
    nodeName: 'start',
    nodeType: 'step',
    parentEventId: null,
    parentExecutionId: null,
    commandId: null,
    attempt: null,
    workerId: null,
    reportId: null,
    reportSeq: null,
    closes: false,
    stale: false,
    duration: null,
    context: {},
    result: null,
    error: null,
    meta: {},
    engineVersion: 1,
    at: AT,
    ...change,
  };
}

export function commandRow(change: Partial<CommandRow> = {}): CommandRow {
  return {
    executionId: 41007,
    commandId: 41012,
    eventId: 3,
    catalogId: 2003,
    commandKey: 'start@1',
    stepName: 'start',
    toolKind: 'noop',
    pool: 'shared',
    activation: 1,
    iterationIndex: null,
    status: 'CLAIMED',
    attempt: 1,
    maxAttempts: 5,
    priority: 0,
    workerId: 'worker-7',
    claimId: null,
    claimedAt: AT,
    startedAt: null,
    heartbeatAt: null,
    completedAt: null,
    parkedOn: null,
    nextWakeAt: AT,
    republishedAt: null,
    republishCount: 0,
    context: { render_context: { workload: {} } },
    contextRef: null,
    error: null,
    latestEventId: 4,
    meta: {},
    createdAt: AT,
    ...change,
  };
}

export function granted(change: Partial<CommandRow> = {}): GrantedCommand {
  return {
    row: commandRow(change),
    path: 'demo/greet',
    version: 3,
    parentExecutionId: null,
    toolConfig: { kind: 'noop', message: '{{ who }}' },
    timeoutSeconds: 21600,
    leaseSeconds: 120,
    iterationTotal: null,
    trace: null,
  };
}

export function catalogEntry(change: Partial<CatalogEntry> = {}): CatalogEntry {
  return {
    catalogId: 2003,
    path: 'demo/greet',
    version: 3,
    kind: 'playbook',
    name: 'greet',
    description: null,
    status: 'active',
    content: 'kind: Playbook\n',
    payload: { kind: 'Playbook' },
    layout: null,
    meta: { agent: false },
    tasksCount: 1,
    createdBy: null,
    createdAt: AT,
    updatedAt: AT,
    archivedAt: null,
    ...change,
  };
}

export const CREDENTIAL: Credential = {
  id: '17',
  name: 'pg_auth',
  type: 'postgres',
  description: null,
  tags: [],
  meta: null,
  schema: null,
  createdAt: AT,
  updatedAt: AT,
};

export const RECEIPT: StartReceipt = {
  executionId: 41007,
  path: 'demo/greet',
  catalogId: 2003,
  version: 3,
  kind: 'playbook',
  commandsGenerated: 1,
  duplicate: false,
  startedAt: AT,
  waited: null,
};

export const STORED: StoredResult = {
  ref: 'callboard://execution/41007/result/export/41230',
  name: 'export',
  store: 'db',
  scope: 'execution',
  bytes: 12,
  sha256: '9f',
  summary: { status: 'ok' },
  createdAt: AT,
  expiresAt: null,
};

export const INSIGHT: ExecutionInsight = {
  progress: 50,
  progressDetail: { total_steps: 2, completed_steps: 1, failed_steps: 0, running_steps: 1, skipped_steps: 0 },
  currentStep: 'end',
  completedSteps: ['start'],
  failedSteps: [],
  variables: { small: 1, large: 'x'.repeat(70_000) },
};

export function workerRow(registration: Registration): WorkerRow {
  return {
    ...registration,
    runtimeId: 901,
    registeredAt: AT,
    heartbeatAt: AT,
    openCommands: 0,
    createdAt: AT,
    updatedAt: AT,
  };
}

const REGISTRATION: Registration = {
  name: 'worker-7',
  kind: 'worker_pool',
  runtime: { kind: 'node' },
  uri: null,
  status: 'ready',
  capacity: 8,
  pools: ['shared'],
  toolKinds: [],
  labels: {},
  instance: null,
  heartbeatSeconds: 2,
  offlineAfterSeconds: 6,
  pid: null,
  hostname: null,
  meta: {},
  version: null,
};

type Changes = { readonly [K in keyof Services]?: Partial<Services[K]> };

export function fakeServices(changes: Changes = {}): Services {
  return {
    executions: {
      start: async () => RECEIPT,
      rerun: async () => RECEIPT,
      cancel: async () => ({ status: 'cancelled', cancelled: [41007, 41031], message: 'Cancelled 2 executions' }),
      cleanup: async ({ dryRun }) => ({ executionIds: [], message: 'No stuck executions found', dryRun }),
      finalize: async () => ({ status: 'finalized', message: 'Finalized' }),
      recordEvent: async () => ({
        eventId: 9,
        commandsGenerated: 0,
        duplicate: false,
        late: false,
        stale: false,
        executionStatus: 'running',
      }),
      insight: async () => INSIGHT,
      whenEnded: async () => executionRow(),
      follow: () => () => {},
      ...changes.executions,
    },
    batches: {
      accept: async (request) => ({
        requestId: 41100,
        eventIds: request.events.map((_, index) => index + 9),
        queueDepth: 1,
        duplicate: false,
        idempotencyKey: request.idempotencyKey,
      }),
      find: async () => batchRow(),
      follow: () => () => {},
      ...changes.batches,
    },
    commands: {
      claim: async () => granted(),
      claimMany: async () => ({ commands: [granted()], stop: [] }),
      exchange: async () => ({ reports: [], commands: [], stop: [], pending: 0 }),
      get: async () => granted(),
      ...changes.commands,
    },
    workers: {
      register: async (registration) => workerRow(registration),
      heartbeat: async () => ({ recreated: false, runtimeId: 901, stop: [] }),
      deregister: async () => ({ released: 0 }),
      list: async () => [workerRow(REGISTRATION)],
      find: async () => workerRow(REGISTRATION),
      holder: async () => null,
      seen: () => {},
      polling: () => ({ close: () => {} }),
      ...changes.workers,
    },
    catalog: {
      register: async () => ({ entry: catalogEntry(), unchanged: false, warnings: [] }),
      get: async () => catalogEntry(),
      byId: async () => catalogEntry(),
      list: async () => [catalogEntry()],
      versions: async () => [{ entry: catalogEntry(), sha256: '9f', executions: 12 }],
      archive: async () => ({ path: 'demo/greet', archived: [2003] }),
      update: async () => catalogEntry(),
      find: async () => catalogEntry(),
      validate: async () => ({ valid: true, diagnostics: [], path: 'demo/greet', kind: 'playbook' }),
      read: async (content, resourceType) => readCatalogDocument(content, { path: null, resourceType }),
      executable: () => Promise.reject(new Error('the routes never ask this')),
      playbook: async () => ({ entry: catalogEntry(), playbook: playbookOf([step('start')]) }),
      ...changes.catalog,
    },
    credentials: {
      save: async () => CREDENTIAL,
      get: async () => CREDENTIAL,
      reveal: async () => ({ ...CREDENTIAL, data: { user: 'app' } }),
      list: async () => [CREDENTIAL],
      patch: async () => CREDENTIAL,
      remove: async () => CREDENTIAL,
      ...changes.credentials,
    },
    keychain: {
      read: async ({ catalogId, name }) => ({ status: 'not_found', cacheKey: `${name}:${catalogId}:global` }),
      store: async ({ catalogId, name }) => ({
        cacheKey: `${name}:${catalogId}:global`,
        expiresAt: AT,
        ttlSeconds: 3600,
      }),
      remove: async () => true,
      list: async () => [],
      log: async () => [],
      sweep: async () => 0,
      ...changes.keychain,
    },
    results: {
      put: async () => STORED,
      resolve: async () => ({ json: '{"rows":[1]}', sha256: '9f' }),
      list: async () => [STORED],
      newest: async () => STORED,
      remove: async () => 2,
      ...changes.results,
    },
    sql: {
      execute: async () => ({ result: [{ one: 1 }], rowCount: 1, columns: ['one'], truncated: false }),
      ...changes.sql,
    },
    admin: {
      sweep: async () => ({
        status: 'ok',
        report: { sweptAt: AT, republished: 0, orphanedActive: 0, strandedPending: 0, byReason: {}, errors: 0 },
        lease: { name: 'command_reaper', holder: 'srv-a', token: 17 },
      }),
      reaper: async () => ({
        settings: {
          enabled: true,
          intervalSeconds: 60,
          maxPerRun: 100,
          pendingRetrySeconds: 60,
          workerStaleSeconds: 60,
          hardTimeoutSeconds: 1800,
        },
        sweeps: [],
        nextDueAt: AT,
        lease: null,
      }),
      leases: async () => [],
      invariants: async () => ({ status: 'ok', checkedAt: AT, checks: [] }),
      reconcile: async () => ({ isHere: true, drained: 0, refolded: 0, unparked: 0, rebuilt: 0 }),
      audit: async () => [],
      drain: async () => {},
      keys: {
        list: async () => ({ active: 'k1', keys: [{ kid: 'k1', rows: 3 }] }),
        rotate: async () => ({ status: 'done', active: 'k1', rewrapped: 0, remaining: 0 }),
        retire: async () => {},
      },
      ...changes.admin,
    },
    inspection: fakeInspection(changes.inspection),
    sessions: {
      create: async () => ({ token: 's'.repeat(43), expiresAt: AT }),
      validate: async () => null,
      revoke: async () => 1,
      ...changes.sessions,
    },
    explanations: {
      of: async (executionId) => ({ executionId, status: 'completed', sentence: '', stuck: false, waitingOn: [] }),
      ...changes.explanations,
    },
    toolServers: {
      lifecycle: async ({ path, action }) => ({
        verb: action,
        path,
        version: 2,
        agentPath: 'automation/mcp/deploy',
        executionId: 41300,
      }),
      discover: async ({ path }) => ({
        strategy: 'direct',
        isNew: true,
        path,
        versionBefore: 2,
        versionAfter: 3,
        toolsBefore: 0,
        toolsAfter: 17,
      }),
      ...changes.toolServers,
    },
    simulation: { simulate: async () => '{}', ...changes.simulation },
    reads: {
      execution: async () => executionRow(),
      executions: async () => ({ rows: [executionRow()], total: 1, totalIsExact: true }),
      events: async () => ({ events: [logEvent(1)], total: 1 }),
      commands: async () => [commandRow()],
      dashboard: async () => ({
        totalExecutions: 120,
        running: 3,
        completed: 110,
        failed: 5,
        cancelled: 2,
        playbooks: 14,
        workers: 2,
        queueDepth: 0,
        asOf: AT,
      }),
      health: async () => ({ database: 'ok', schemaVersion: 12 }),
      schema: async () => ({ version: 12, tables: ['catalog'], missing: [] }),
      poolStatus: () => ({ min: 2, max: 12, size: 4, available: 3, waiting: 0 }),
      ...changes.reads,
    },
  };
}
