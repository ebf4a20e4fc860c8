/**
 * A world for the actors: one store, one clock, as many servers as a test wants, workers that are names. Time stands still
 * unless a test moves it; commits fail when a test says so.
 */
import { createHash } from 'node:crypto';
import { createEngine, type EngineSettings, type RunningEngine } from '../../actors/engine.ts';
import { DomainError } from '../../actors/errors.ts';
import { createMemoryExchange } from '../../actors/memory/memory-bus.ts';
import { createMemoryStore, type MemoryStore } from '../../actors/memory/memory-store.ts';
import { createSeededIds } from '../../actors/memory/seeded-ids.ts';
import { createStepClock, type StepClock } from '../../actors/memory/step-clock.ts';
import type { CommandRow, Log, Meter, Store } from '../../actors/ports.ts';
import type {
  CatalogEntry,
  CatalogService,
  ClaimRequest,
  EventInput,
  ExchangeReceipt,
  GrantedCommand,
  Report,
  ReportedOutcome,
  ReportReceipt,
  StartReceipt,
  StartRequest,
  WorkerRow,
  WorkerService,
} from '../../actors/services.ts';
import type { JsonMap } from '../../machines/json.ts';
import type { Playbook } from '../../machines/playbook/document.ts';
import { playbookOf } from './playbooks.ts';
import { LIMITS } from './story.ts';

export const SETTINGS: EngineSettings = {
  limits: LIMITS,
  policy: { leaseSeconds: 120, heartbeatStaleSeconds: 60, hardTimeoutSeconds: 1_800 },
  pendingRetrySeconds: 60,
  stepTimeoutSeconds: 21_600,
  commandMaxAttempts: 5,
  cancelCheckSeconds: 5,
  nestingMax: 32,
  flushIntervalMs: 0,
  flushMaxTurns: 256,
  mailboxMax: 64,
  actorsMax: 1_000,
  payloadBytesMax: 10_000_000,
};

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export class World {
  readonly clock: StepClock = createStepClock();
  readonly store: MemoryStore = createMemoryStore(this.clock);
  readonly ids = createSeededIds();
  /** What one server tells the others gets lost. */
  losesHints = false;
  readonly exchange = createMemoryExchange((deliver) => {
    if (!this.losesHints) queueMicrotask(deliver);
  });
  readonly workers = new Map<string, WorkerRow>();
  /** Workers that wait for an answer, once for each. */
  readonly asking: string[] = [];
  /** Paths whose playbooks can no longer be started. */
  readonly archived = new Set<string>();
  readonly lines: LogLine[] = [];
  readonly counts = new Map<string, number>();
  readonly #playbooks = new Map<number, { entry: CatalogEntry; playbook: Playbook }>();
  readonly #settings: EngineSettings;
  #reports = 0;
  /** The server most tests talk to. */
  server: RunningEngine;

  constructor(playbooks: Readonly<Record<string, readonly JsonMap[]>>, settings: Partial<EngineSettings> = {}) {
    this.#settings = { ...SETTINGS, ...settings };
    let catalogId = 2_000;
    for (const [path, steps] of Object.entries(playbooks)) {
      catalogId += 1;
      this.#playbooks.set(catalogId, { entry: entryOf(catalogId, path), playbook: playbookOf(steps) });
    }
    this.register('alice');
    this.register('bob');
    this.server = this.another();
  }

  /** A further server over the same store. `store` may stand between. */
  another(store: Store = this.store): RunningEngine {
    return createEngine(
      {
        store,
        ids: this.ids,
        clock: this.clock,
        bus: this.exchange.connect(),
        log: this.#log(),
        meter: this.#meter(),
        catalog: this.#catalog(),
        workers: this.#workerService(),
        sha256: (text) => createHash('sha256').update(text).digest('hex'),
      },
      this.#settings,
    );
  }

  /** The process dies; another one starts over the same store. */
  crash(): RunningEngine {
    this.server = this.another();
    return this.server;
  }

  register(name: string, change: Partial<WorkerRow> = {}): void {
    const now = new Date(this.clock.now()).toISOString();
    const row = {
      name,
      kind: 'worker_pool',
      runtime: null,
      uri: null,
      status: 'ready',
      capacity: 8,
      pools: ['shared'],
    } as const;
    const rest = {
      toolKinds: [],
      labels: {},
      instance: null,
      heartbeatSeconds: 3,
      offlineAfterSeconds: 10,
      pid: null,
    } as const;
    const last = {
      hostname: null,
      meta: {},
      version: null,
      runtimeId: 1,
      registeredAt: now,
      heartbeatAt: now,
    } as const;
    this.workers.set(name, { ...row, ...rest, ...last, openCommands: 0, createdAt: now, updatedAt: now, ...change });
  }

  start(path: string, request: Partial<StartRequest> = {}, server = this.server): Promise<StartReceipt> {
    return server.executions.start({ path, workload: {}, ...request });
  }

  claimOf(workerId: string, change: Partial<ClaimRequest> = {}): ClaimRequest {
    const none = { pools: null, toolKinds: null, claimId: null, signal: new AbortController().signal };
    return { workerId, max: 10, waitMs: 0, ...none, ...change };
  }

  async claim(
    workerId = 'alice',
    change: Partial<ClaimRequest> = {},
    server = this.server,
  ): Promise<readonly GrantedCommand[]> {
    return (await server.commands.claimMany(this.claimOf(workerId, change))).commands;
  }

  reportOf(
    command: CommandRow | GrantedCommand,
    change: Partial<ReportedOutcome> = {},
    more: Partial<Report> = {},
  ): Report {
    const row = 'row' in command ? command.row : command;
    this.#reports += 1;
    const outcome: ReportedOutcome = {
      ...{ outcome: 'ok', startedAt: null, durationMs: 5, data: null, ctx: {}, tasks: {}, warnings: [], log: null },
      ...change,
    };
    const { commandId, attempt } = row;
    return { reportId: `r${this.#reports}`, commandId, attempt, executionId: null, outcome, events: null, ...more };
  }

  async exchangeWith(
    workerId: string,
    reports: readonly Report[],
    claim: Partial<ClaimRequest> | null = null,
    server = this.server,
  ): Promise<ExchangeReceipt> {
    return server.commands.exchange({
      ...{ workerId, instance: null, status: 'ready', holding: [], reports },
      claim: claim === null ? null : this.claimOf(workerId, claim),
    });
  }

  /** Reports one command and answers what became of it. */
  async report(
    command: CommandRow | GrantedCommand,
    change: Partial<ReportedOutcome> = {},
    more: Partial<Report> = {},
  ): Promise<ReportReceipt> {
    const row = 'row' in command ? command.row : command;
    const { reports } = await this.exchangeWith(row.workerId ?? 'alice', [this.reportOf(command, change, more)]);
    const [receipt] = reports;
    if (receipt === undefined) throw new Error('a report had no answer');
    return receipt;
  }

  eventOf(executionId: number, type: string, change: Partial<EventInput> = {}): EventInput {
    return {
      ...{ executionId, type, step: null, payload: {}, meta: {}, workerId: null, status: null, reportId: null },
      ...{ commandId: null, attempt: null, actionable: true, producerTime: null },
      ...change,
    };
  }

  /** What the reaper and reconciliation do: whatever is overdue is announced again, waits and inboxes are settled. */
  async sweep(server = this.server): Promise<void> {
    await server.recovery.settleParked();
    for (const executionId of await this.store.withInbox(1_000)) await server.recovery.drain(executionId);
    const hints = await this.store.overdue(1_000);
    const nextWakeAt = new Date(this.clock.now() + 60_000).toISOString();
    await this.store.postpone(
      hints.map(({ executionId, commandId }) => ({ executionId, commandId, nextWakeAt, republished: true })),
    );
    server.recovery.announce(hints);
  }

  types(executionId: number): readonly string[] {
    return this.store.log(executionId).map((event) => `${event.type} ${event.nodeId}`);
  }

  row(executionId: number) {
    const row = this.store.executions().find((each) => each.executionId === executionId);
    if (row === undefined) throw new Error(`no execution ${executionId}`);
    return row;
  }

  commandsOf(executionId: number): readonly CommandRow[] {
    return this.store.commands().filter((row) => row.executionId === executionId);
  }

  command(executionId: number, key: string): CommandRow {
    const row = this.commandsOf(executionId).find((each) => each.commandKey === key);
    if (row === undefined) throw new Error(`no command ${key}`);
    return row;
  }

  #log(): Log {
    const write =
      (level: string) =>
      (message: string, fields: Readonly<Record<string, unknown>> = {}) => {
        this.lines.push({ level, message, fields });
      };
    return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  }

  #meter(): Meter {
    return {
      count: (name, _labels, by = 1) => this.counts.set(name, (this.counts.get(name) ?? 0) + by),
      observe: () => {},
      gauge: () => {},
    };
  }

  #catalog(): CatalogService {
    const byId = (catalogId: number) => {
      const found = this.#playbooks.get(catalogId);
      if (found === undefined) throw new DomainError('not_found', `no catalog entry ${catalogId}`);
      return found;
    };
    const refuse = (): never => {
      throw new Error('the catalog of a test only starts executions');
    };
    return {
      register: refuse,
      get: refuse,
      byId: async (catalogId) => byId(catalogId).entry,
      list: refuse,
      count: refuse,
      versions: refuse,
      archive: refuse,
      update: refuse,
      find: refuse,
      validate: refuse,
      read: refuse,
      permit: async () => {},
      accessRules: refuse,
      ruled: refuse,
      executable: async ({ path, catalogId }) => {
        const found =
          catalogId === undefined
            ? [...this.#playbooks.values()].find(({ entry }) => entry.path === path)
            : byId(catalogId);
        if (found === undefined || this.archived.has(found.entry.path)) {
          throw new DomainError('not_found', `Executable catalog entry not found: ${path}`);
        }
        return found;
      },
      playbook: async (catalogId) => byId(catalogId),
    };
  }

  #workerService(): WorkerService {
    const change = (name: string, to: Partial<WorkerRow>) => {
      const row = this.workers.get(name);
      if (row !== undefined) this.workers.set(name, { ...row, ...to });
    };
    const refuse = (): never => {
      throw new Error('the workers of a test are registered by it');
    };
    const find = async (name: string) => this.workers.get(name) ?? null;
    return {
      register: refuse,
      deregister: refuse,
      list: refuse,
      heartbeat: async (name, { status }) => {
        if (status !== null) change(name, { status });
        return { recreated: false, runtimeId: 1, stop: [] };
      },
      find,
      look: find,
      holder: async (name) => {
        const row = this.workers.get(name);
        if (row === undefined) return null;
        const { status, offlineAfterSeconds } = row;
        const registeredAt = Date.parse(row.registeredAt);
        return { name, status, registeredAt, heartbeatAt: Date.parse(row.heartbeatAt), offlineAfterSeconds };
      },
      seen: (name) => change(name, { heartbeatAt: new Date(this.clock.now()).toISOString() }),
      polling: (name) => {
        this.asking.push(name);
        return { close: () => this.asking.splice(this.asking.indexOf(name), 1) };
      },
    };
  }
}

function entryOf(catalogId: number, path: string): CatalogEntry {
  return {
    ...{ catalogId, path, version: 1, kind: 'playbook', name: path, description: null, status: 'active', content: '' },
    ...{
      payload: {},
      layout: null,
      meta: {},
      tasksCount: 1,
      createdBy: null,
      createdAt: '',
      updatedAt: '',
      archivedAt: null,
    },
  };
}
