/**
 * Everything that looks after a running service by itself, put together: leases, the reaper, reconciliation, the daily work and
 * what becomes of interrupted runs. One process does each of these at a time; the others stand by and take over.
 */
import { type AuditStore, createAdminService } from './admin-service.ts';
import type { CurrentCaller } from './audit.ts';
import { type AutoResumeMode, type AutoResumeStore, resumeAfterRestart } from './auto-resume.ts';
import type { RunningEngine } from './engine.ts';
import { DomainError } from './errors.ts';
import { explainExecution, standingOf } from './explain.ts';
import { Housekeeper, type HousekeepingStore, type Kept } from './housekeeping.ts';
import type { InvariantStore } from './invariants.ts';
import { createKeyService, type SealedStore } from './key-rotation.ts';
import { type Lease, type LeaseStore, Leases, type ServerCard } from './lease.ts';
import {
  type Bus,
  type Clock,
  type Ids,
  type Log,
  type Meter,
  StaleError,
  type Store,
  type Tracer,
  UnavailableError,
} from './ports.ts';
import { Reaper, type ReaperSettings, type SweepStore } from './reaper.ts';
import { type Healer, Reconciler, type ReconcileStore } from './reconcile.ts';
import type { AdminService, Explanation, ReadService, WorkerService } from './services.ts';
import type { Vault } from './vault.ts';

export interface UpkeepStores {
  readonly leases: LeaseStore;
  readonly sweeps: SweepStore;
  readonly reconcile: ReconcileStore;
  readonly interrupted: AutoResumeStore;
  readonly housekeeping: HousekeepingStore;
  readonly invariants: InvariantStore;
  readonly sealed: SealedStore;
  readonly audit: AuditStore;
  readonly engine: Store;
}

export interface UpkeepParts {
  readonly stores: UpkeepStores;
  readonly engine: RunningEngine;
  readonly reads: Pick<ReadService, 'execution' | 'commands'>;
  readonly workers: WorkerService;
  readonly vault: Vault;
  readonly ids: Ids;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Log;
  readonly meter: Meter;
  readonly tracer?: Tracer;
  readonly caller: CurrentCaller;
  /** Unique among the processes of a service, also across restarts. */
  readonly holder: string;
  readonly card: ServerCard;
  /** What other parts know how to find and put right (reconciliation). */
  readonly healers: readonly Healer[];
  /** Their daily work. */
  readonly chores: readonly ((lease: Lease) => Promise<number>)[];
  /** Claims, starts and batches of this process. */
  drain(isDraining: boolean): void;
}

export interface UpkeepSettings {
  readonly leaseSeconds: number;
  readonly reaper: ReaperSettings;
  readonly reconcileIntervalSeconds: number;
  readonly autoResume: {
    readonly mode: AutoResumeMode;
    readonly windowMinutes: number;
    readonly settleSeconds: number;
  };
  readonly partitionIdSpan: number;
  readonly kept: Kept;
  readonly workerStaleSeconds: number;
}

export interface Upkeep {
  readonly admin: AdminService;
  readonly leases: Leases;
  explain(executionId: number): Promise<Explanation>;
  /** Makes this server known. Before anything else of the service starts. */
  enrol(): Promise<void>;
  /** Begins to look after things; what a restart interrupted is decided later, in the background. */
  start(): void;
  /** Ends what is under way and gives the leases back. */
  stop(): Promise<void>;
}

const SWEEP = 'command_reaper.sweep';
const RESUME_AGAIN_MS = 2_000;
/** Whoever ended the wait ends its child a moment later; what is older was left by a crash. */
const ABANDONED_SECONDS = 5;

export function createUpkeep(parts: UpkeepParts, settings: UpkeepSettings): Upkeep {
  const { stores, engine, reads, workers, clock, bus, log, meter, ids, caller } = parts;
  const stopping = new AbortController();
  const startedAt = clock.now();
  const leases = new Leases({
    store: stores.leases,
    clock,
    log,
    meter,
    holder: parts.holder,
    card: parts.card,
    leaseSeconds: settings.leaseSeconds,
  });
  const reaper = new Reaper({
    store: stores.sweeps,
    leases,
    clock,
    log,
    meter,
    tracer: parts.tracer,
    settings: settings.reaper,
    announce: (hints) => engine.recovery.announce(hints),
    askHolder: () => bus.publish('control', [{ action: SWEEP }]),
  });
  const reconciler = new Reconciler({
    store: stores.reconcile,
    leases,
    log,
    meter,
    intervalSeconds: settings.reconcileIntervalSeconds,
    healers: [{ kind: 'abandoned', heal: () => engine.executions.endAbandoned(ABANDONED_SECONDS) }, ...parts.healers],
    drain: (executionId) => engine.recovery.drain(executionId),
    settleParked: () => engine.recovery.settleParked(),
  });
  const housekeeper = new Housekeeper({
    store: stores.housekeeping,
    leases,
    log,
    meter,
    partitionIdSpan: settings.partitionIdSpan,
    kept: settings.kept,
    chores: parts.chores,
  });
  const unsubscribe = bus.subscribe((topic, hints) => {
    if (topic !== 'control' || !hints.some((hint) => hint['action'] === SWEEP)) return;
    // Everybody hears it; those that do not hold the lease cannot have it.
    reaper.onAsked().catch((error: unknown) => log.warn('A sweep that was asked for failed', { error: String(error) }));
  });
  let resuming: Promise<unknown> = Promise.resolve();

  /** A database that is away for a moment must not decide what becomes of interrupted runs; what was done is found done. */
  async function resume(): Promise<void> {
    for (;;) {
      try {
        await resumeAfterRestart(startedAt, {
          store: stores.interrupted,
          executions: engine.executions,
          heads: stores.engine,
          workers,
          leases,
          clock,
          log,
          meter,
          ...settings.autoResume,
          pause: (ms) => pause(ms, stopping.signal),
        });
        return;
      } catch (error) {
        const passes = error instanceof UnavailableError || error instanceof StaleError || error instanceof DomainError;
        if (stopping.signal.aborted || !passes) throw error;
        log.warn('Interrupted runs will be looked at again', { error: String(error) });
        await pause(RESUME_AGAIN_MS, stopping.signal);
      }
    }
  }

  return {
    leases,
    admin: createAdminService({
      reaper,
      reconciler,
      leases,
      invariants: { store: stores.invariants, logs: stores.engine, clock, meter },
      keys: createKeyService({ store: stores.sealed, vault: parts.vault, leases, ids, caller, log }),
      audit: stores.audit,
      ids,
      caller,
      drain: parts.drain,
    }),
    explain: (executionId) =>
      explainExecution(executionId, {
        reads,
        workers,
        clock,
        standing: (row) => standingOf(engine.supervisor, row),
        reaperIntervalSeconds: settings.reaper.intervalSeconds,
        staleSeconds: settings.workerStaleSeconds,
      }),
    enrol: () => leases.start(),
    start() {
      housekeeper.start();
      reaper.start();
      reconciler.start();
      resuming = resume().catch((error: unknown) => {
        if (!stopping.signal.aborted) log.error('Interrupted runs could not be looked at', { error: String(error) });
      });
    },
    async stop() {
      stopping.abort();
      unsubscribe();
      await Promise.all([resuming, reaper.stop(), reconciler.stop(), housekeeper.stop()]);
      await leases.stop();
    },
  };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      reject(new Error('the process stops'));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', end);
      resolve();
    }, ms);
    timer.unref?.();
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  });
}
