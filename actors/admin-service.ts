/** What an operator may look at and set going (api 2.13): every call is one of another part, put behind one door and audited. */
import type { AuditRow, CurrentCaller } from './audit.ts';
import { checkInvariants, type InvariantsParts } from './invariants.ts';
import type { KeyService } from './key-rotation.ts';
import type { LeaseRow, Leases } from './lease.ts';
import type { Ids } from './ports.ts';
import { REAPER_LEASE, type Reaper, type ReaperStatus, type SweepAnswer } from './reaper.ts';
import type { Reconciled, Reconciler } from './reconcile.ts';
import type { AdminService, AuditFilter, StoredAudit } from './services.ts';

export interface AuditStore {
  /** Newest first. */
  list(filter: AuditFilter): Promise<readonly StoredAudit[]>;
  insert(row: AuditRow): Promise<void>;
}

export interface AdminParts {
  readonly reaper: Reaper;
  readonly reconciler: Reconciler;
  readonly leases: Leases;
  readonly invariants: InvariantsParts;
  readonly keys: KeyService;
  readonly audit: AuditStore;
  readonly ids: Ids;
  readonly caller: CurrentCaller;
  /** Readiness, claims, starts and batches of this process. */
  drain(isDraining: boolean): void;
}

const NOTHING: Reconciled = { drained: 0, refolded: 0, unparked: 0, rebuilt: 0 };

export function createAdminService(parts: AdminParts): AdminService {
  const { reaper, reconciler, leases, invariants, keys, audit, ids, caller, drain } = parts;

  async function note(action: string, target: string): Promise<void> {
    await ids.reserve(1);
    await audit.insert({ ...caller(), auditId: ids.next(), action, target, outcome: 'ok', detail: {} });
  }

  return {
    keys,
    async sweep(max): Promise<SweepAnswer> {
      await note('admin.reaper.sweep', REAPER_LEASE);
      return reaper.sweepNow(max);
    },
    async reaper(): Promise<ReaperStatus & { lease: LeaseRow | null }> {
      const lease = (await leases.list()).find((row) => row.name === REAPER_LEASE) ?? null;
      return { ...reaper.status(), lease };
    },
    leases: () => leases.list(),
    invariants: () => checkInvariants(invariants),
    async reconcile() {
      await note('admin.reconcile', 'reconcile');
      const done = await reconciler.reconcile();
      return { isHere: done !== null, ...(done ?? NOTHING) };
    },
    audit: (filter) => audit.list(filter),
    async drain(isDraining) {
      await note('admin.drain', leases.holder);
      drain(isDraining);
    },
  };
}
