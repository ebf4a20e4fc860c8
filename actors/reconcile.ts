/**
 * Reconciliation (api 4.10): what a lost message, a crash or an operator's hand left lying is found by index and put right, by
 * one process at a time. Each find is a healed fault, so each is counted and logged. Other parts of the service add what they
 * know how to find as a `Healer`.
 */
import { type Fence, type Lease, LeaseLostError, type Leases } from './lease.ts';
import { createPeriodic, type Periodic } from './periodic.ts';
import type { Log, Meter } from './ports.ts';

export interface Findings {
  /** Executions with events that are older than a few seconds and that no turn has handled. */
  readonly inboxes: readonly number[];
  /** Executions whose log has ended and whose row says that they run. */
  readonly ended: readonly number[];
  /** Parked commands whose child has ended or whose time is over. */
  readonly parked: number;
  /** Stored results and variables whose time is over. */
  readonly expired: number;
}

export interface ReconcileStore {
  /** Everything there is to find, in one statement. */
  look(limit: number): Promise<Findings>;
  /** Deletes results and variables whose time is over, at most `limit` of each. Throws LeaseLostError. */
  removeExpired(fence: Fence, limit: number): Promise<number>;
}

/** Finds and heals one kind of fault of its own part; answers how many. Every write must bear being repeated. */
export interface Healer {
  /** Label of `svc_reconcile_healed_total`: `batch`, `keychain` … */
  readonly kind: string;
  heal(lease: Lease): Promise<number>;
}

export interface Reconciled {
  readonly drained: number;
  readonly refolded: number;
  readonly unparked: number;
  /** What the registered healers put right. */
  readonly rebuilt: number;
}

export interface ReconcilerParts {
  readonly store: ReconcileStore;
  readonly leases: Leases;
  readonly log: Log;
  readonly meter: Meter;
  readonly intervalSeconds: number;
  readonly healers: readonly Healer[];
  drain(executionId: number): Promise<void>;
  settleParked(): Promise<number>;
}

export const RECONCILE_LEASE = 'reconcile';
const LIMIT = 1000;
const NOTHING: Reconciled = { drained: 0, refolded: 0, unparked: 0, rebuilt: 0 };

export class Reconciler {
  readonly #parts: ReconcilerParts;
  readonly #periodic: Periodic;

  constructor(parts: ReconcilerParts) {
    this.#parts = parts;
    const intervalMs = parts.intervalSeconds * 1000;
    this.#periodic = createPeriodic({
      name: RECONCILE_LEASE,
      log: parts.log,
      firstMs: intervalMs,
      retryMs: intervalMs,
      run: async () => {
        await this.reconcile();
        return intervalMs;
      },
    });
  }

  start(): void {
    this.#periodic.start();
  }

  stop(): Promise<void> {
    return this.#periodic.stop();
  }

  /** One round; null when another process holds the lease. */
  async reconcile(): Promise<Reconciled | null> {
    const { leases, store, drain, settleParked, healers } = this.#parts;
    const lease = await leases.acquire(RECONCILE_LEASE);
    if (lease === null) return null;
    try {
      const found = await store.look(LIMIT);
      for (const executionId of new Set([...found.inboxes, ...found.ended]))
        if (lease.isHeld()) await drain(executionId);
      const unparked = found.parked > 0 ? await settleParked() : 0;
      let rebuilt = 0;
      for (const healer of healers) {
        const healed = lease.isHeld() ? await healer.heal(lease) : 0;
        this.#count(healer.kind, healed);
        rebuilt += healed;
      }
      if (found.expired > 0) await store.removeExpired(lease, LIMIT);
      this.#count('inbox', found.inboxes.length);
      this.#count('refold', found.ended.length);
      this.#count('parked', unparked);
      return { drained: found.inboxes.length, refolded: found.ended.length, unparked, rebuilt };
    } catch (error) {
      if (!(error instanceof LeaseLostError)) throw error;
      leases.lost(RECONCILE_LEASE);
      return NOTHING;
    }
  }

  #count(kind: string, healed: number): void {
    if (healed === 0) return;
    this.#parts.meter.count('svc_reconcile_healed_total', { kind }, healed);
    this.#parts.log.warn('Reconciliation put something right', { kind, count: healed });
  }
}
