/**
 * One incarnation of a server: the actors of production, put together as src/host/services.ts does it, over ports that lead
 * through the network of the world. What it keeps in memory dies with it.
 */
import { createHash } from 'node:crypto';
import { OPEN_CALLER } from '../../actors/audit.ts';
import { type Batches, createBatches } from '../../actors/batches.ts';
import { createEngine, type RunningEngine } from '../../actors/engine.ts';
import { createKeychainPreparation } from '../../actors/keychain-preparation.ts';
import { createKeychainService } from '../../actors/keychain-service.ts';
import type { BatchJobs, Bus, Clock, Ids, Log, Meter } from '../../actors/ports.ts';
import type { CatalogService, KeychainService } from '../../actors/services.ts';
import { createUpkeep, type Upkeep } from '../../actors/upkeep.ts';
import { Workers } from '../../actors/worker-service.ts';
import { plainVault } from '../actors/plain-vault.ts';
import type { Database } from './database.ts';
import { EPOCH, type Kernel, type Life } from './kernel.ts';
import type { Network } from './network.ts';
import type { Plan } from './plan.ts';
import type { Queue } from './queue.ts';

export interface Server {
  readonly name: string;
  readonly holder: string;
  readonly startedAt: number;
  readonly engine: RunningEngine;
  readonly workers: Workers;
  readonly batches: Batches;
  readonly keychain: KeychainService;
  readonly upkeep: Upkeep;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface ServerParts {
  readonly life: Life;
  readonly holder: string;
  readonly kernel: Kernel;
  readonly network: Network;
  readonly database: Database;
  readonly queue: Queue;
  readonly plan: Plan;
  readonly catalog: CatalogService;
  readonly log: Log;
  readonly meter: Meter;
  /** The first id of a block of ids. */
  takeBlock(size: number): number;
}

const ID_BLOCK = 4_096;
const POLL_MS = 10_000;

export function createServer(parts: ServerParts): Server {
  const { life, holder, kernel, network, database, queue, plan, catalog, log, meter } = parts;
  const { pace, settings } = plan;
  const ask = <T>(label: string, work: () => Promise<T>) => network.ask(life, label, work);
  const remote = <T extends object>(target: T, label: string): T => wire(target, label, ask);
  let latest = 0;
  const clock: Clock = {
    now() {
      latest = Math.max(latest, Math.floor(EPOCH + kernel.now + life.skewMs));
      return latest;
    },
  };
  const store = remote(database.store, 'store');
  const wired = {
    ...storeOf(store),
    commit: (flush: Parameters<typeof store.commit>[0]) => network.commit(life, database, flush),
  };
  const ids = createIds(parts.takeBlock, ask);
  const bus: Bus = network.connect(life);
  const workers = new Workers({
    ...{ store: remote(database.runtime, 'runtime'), bus, clock, ids, log, meter },
    staleSeconds: settings.policy.heartbeatStaleSeconds,
    sweepIntervalSeconds: 2,
  });
  const keychainStore = remote(database.keychain, 'keychain');
  const keychain = createKeychainService({
    ...{ store: keychainStore, vault: plainVault, ids, clock, caller: () => OPEN_CALLER, log, meter },
    refreshSeconds: 1,
  });
  const preparation = createKeychainPreparation({
    ...{ keychain, store: keychainStore, vault: plainVault, log },
    limits: settings.limits.template,
    sources: {
      request: () => Promise.reject(new Error('no playbook of a world asks for tokens')),
      managed: () => Promise.reject(new Error('no playbook of a world asks for secrets')),
      secret: () => undefined,
      credential: async () => null,
      deadline: (ms) => AbortSignal.timeout(ms),
    },
  });
  const sha256 = (text: string) => createHash('sha256').update(text, 'utf8').digest('hex');
  const engine = createEngine(
    { store: wired, ids, clock, bus, log, meter, catalog, workers, keychain: preparation, sha256 },
    settings,
  );
  const release = (name: string): void => {
    engine.recovery.releaseWorker(name).catch(() => {});
  };
  workers.connect({
    onOffline: release,
    onRestart: release,
    stopOrders: (name, holds) => engine.commands.stopOrders(name, holds, true),
    async sweeper() {
      const { lease, row } = await upkeep.leases.ask('runtime_sweeper');
      if (lease !== null || row === null) return { isMine: true };
      return { isMine: false, againInMs: Date.parse(row.expiresAt) - clock.now() + 1 };
    },
  });
  const batches = createBatches(
    {
      ...{
        store: wired,
        batches: remote(database.store.batches, 'batches'),
        flusher: engine.flusher,
        ids,
        clock,
        bus,
        log,
      },
      ...{ meter, holder, seen: (name: string) => workers.seen(name), jobs: createJobs(queue, ask) },
    },
    { enqueueTimeoutSeconds: 3, queueMax: 6, workers: 2, processingTimeoutSeconds: pace.batchSeconds, pollSeconds: 1 },
  );
  const refuse = (): never => {
    throw new Error('nobody asks this in a world');
  };
  const upkeep = createUpkeep(
    {
      stores: {
        leases: remote(database.leases, 'leases'),
        sweeps: remote(database.sweeps, 'sweeps'),
        reconcile: remote(database.reconcile, 'reconcile'),
        interrupted: remote(database.interrupted, 'interrupted'),
        housekeeping: {
          ensurePartitions: async () => 0,
          defaultRows: async () => 0,
          dropEndedPartition: async () => false,
          removeEnded: async () => 0,
          removeOld: async () => 0,
        },
        invariants: { names: () => [], check: refuse, newest: async () => [] },
        sealed: { uses: async () => [], rewrap: async () => 0, retire: async () => false, audit: async () => {} },
        audit: { list: async () => [], insert: async () => {} },
        engine: wired,
      },
      ...{ engine, workers, vault: plainVault, ids, clock, bus, log, meter, holder },
      reads: { execution: (id) => store.execution(id), commands: refuse },
      caller: () => OPEN_CALLER,
      card: { uri: null, version: '0', pid: 1, hostname: life.name },
      healers: [{ kind: 'batch', heal: () => batches.heal() }],
      chores: [() => keychain.sweep(1_000)],
      drain(on) {
        engine.commands.drain(on);
        engine.executions.drain(on);
        batches.drain(on);
      },
    },
    {
      leaseSeconds: pace.leaseSeconds,
      reaper: {
        enabled: true,
        intervalSeconds: pace.reaperSeconds,
        maxPerRun: pace.reaperMaxPerRun,
        pendingRetrySeconds: settings.pendingRetrySeconds,
        workerStaleSeconds: pace.staleSeconds,
        hardTimeoutSeconds: settings.policy.hardTimeoutSeconds,
      },
      reconcileIntervalSeconds: pace.reconcileSeconds,
      autoResume: { mode: pace.resume, windowMinutes: 60, settleSeconds: 2 },
      partitionIdSpan: 4_194_304,
      kept: { executionDays: 0, auditDays: 0, keychainLogDays: 0 },
      workerStaleSeconds: settings.policy.heartbeatStaleSeconds,
    },
  );
  return {
    ...{ name: life.name, holder, startedAt: kernel.now, engine, workers, batches, keychain, upkeep },
    async start() {
      await upkeep.enrol();
      workers.start();
      await engine.start();
      await batches.start();
      upkeep.start();
    },
    async stop() {
      await upkeep.stop();
      await batches.stop();
      await engine.stop();
      await workers.stop();
      await bus.close();
    },
  };
}

/** The port without what only memory has. Own properties, so that `commit` can be replaced. */
function storeOf<T extends object>(target: T): T {
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(target)) copy[key] = Reflect.get(target, key);
  // The same keys with the same values.
  return copy as T;
}

/** The same object, each of whose functions is a question over the network. */
function wire<T extends object>(
  target: T,
  label: string,
  ask: <R>(label: string, work: () => Promise<R>) => Promise<R>,
): T {
  const asked = new Map<PropertyKey, unknown>();
  return new Proxy(target, {
    get(object, key) {
      const known = asked.get(key);
      if (known !== undefined) return known;
      const value: unknown = Reflect.get(object, key);
      if (typeof value !== 'function') return value;
      const question = `${label}.${String(key)}`;
      const remote = (...args: unknown[]) => ask(question, async () => Reflect.apply(value, object, args));
      asked.set(key, remote);
      return remote;
    },
  });
}

function createIds(
  takeBlock: (size: number) => number,
  ask: <R>(label: string, work: () => Promise<R>) => Promise<R>,
): Ids {
  let next = 0;
  let end = 0;
  return {
    next() {
      if (next >= end) throw new Error('an id was taken that nobody had reserved');
      next += 1;
      return next - 1;
    },
    async reserve(count) {
      while (end - next < count) {
        const size = Math.max(ID_BLOCK, count);
        const first = await ask('ids.reserve', async () => takeBlock(size));
        // Whoever asked meanwhile may have taken another one.
        if (end - next >= count) return;
        next = first;
        end = first + size;
      }
    },
  };
}

function createJobs(queue: Queue, ask: <R>(label: string, work: () => Promise<R>) => Promise<R>): BatchJobs {
  const wakes: (() => void)[] = [];
  const wake = (): void => {
    for (const each of wakes.splice(0)) each();
  };
  const rest = () =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, POLL_MS);
      wakes.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  return {
    async work(concurrency, handle) {
      const lane = async () => {
        for (;;) {
          const taken = await ask('jobs.take', async () => queue.take()).catch(() => null);
          if (taken === null) {
            await rest();
            continue;
          }
          const isDone = await handle(taken.job).then(
            () => true,
            () => false,
          );
          // A lost word of it lets the job come again.
          await ask('jobs.end', async () => (isDone ? taken.done() : taken.failed())).catch(() => {});
        }
      };
      for (let count = 0; count < concurrency; count += 1) void lane();
    },
    async enqueue(jobs) {
      await ask('jobs.put', async () => queue.put(jobs));
      wake();
    },
    wake,
    state: () => 'ok',
  };
}
