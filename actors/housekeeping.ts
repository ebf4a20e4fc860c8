/**
 * The daily work (api 3.7): room for new ids before they are given out, and the end of what is kept long enough. Under the lease
 * `partitions`; every step is a transaction of its own that proves the lease, so it may stop anywhere and go on tomorrow.
 */
import { type Fence, type Lease, LeaseLostError, type Leases } from './lease.ts';
import { createPeriodic, type Periodic } from './periodic.ts';
import type { Log, Meter } from './ports.ts';

/** How long rows are kept, in days; 0: for ever. */
export interface Kept {
  readonly executionDays: number;
  readonly auditDays: number;
  readonly keychainLogDays: number;
}

export interface HousekeepingStore {
  /** Sees to it that `ahead` empty partitions lie beyond the ids given out; how many were made. */
  ensurePartitions(fence: Fence, span: number, ahead: number): Promise<number>;
  /** Rows in the default partitions, which should hold none. */
  defaultRows(): Promise<number>;
  /** Drops one partition all of whose executions ended so long ago; false when there is none. */
  dropEndedPartition(fence: Fence, days: number): Promise<boolean>;
  /** Removes executions that ended so long ago, whole trees only; how many. */
  removeEnded(fence: Fence, days: number, limit: number): Promise<number>;
  /** Removes old rows of the audit and keychain logs; how many. */
  removeOld(fence: Fence, kept: Kept, limit: number): Promise<number>;
}

export interface HousekeeperParts {
  readonly store: HousekeepingStore;
  readonly leases: Leases;
  readonly log: Log;
  readonly meter: Meter;
  readonly partitionIdSpan: number;
  readonly kept: Kept;
  /** Further daily work of other parts; answers how many rows it removed. */
  readonly chores: readonly ((lease: Lease) => Promise<number>)[];
}

const LEASE = 'partitions';
const PARTITIONS_AHEAD = 2;
const BATCH = 1000;
const DAY_MS = 86_400_000;
const RETRY_MS = 60_000;

export class Housekeeper {
  readonly #parts: HousekeeperParts;
  readonly #periodic: Periodic;

  constructor(parts: HousekeeperParts) {
    this.#parts = parts;
    this.#periodic = createPeriodic({
      name: LEASE,
      log: parts.log,
      firstMs: 0,
      retryMs: RETRY_MS,
      run: async () => {
        await this.tidy();
        return DAY_MS;
      },
    });
  }

  start(): void {
    this.#periodic.start();
  }

  stop(): Promise<void> {
    return this.#periodic.stop();
  }

  /** The work of a day; null when another process is at it. */
  async tidy(): Promise<{ readonly made: number; readonly removed: number } | null> {
    const { leases } = this.#parts;
    try {
      return await leases.during(LEASE, (lease) => this.#tidy(lease));
    } catch (error) {
      if (!(error instanceof LeaseLostError)) throw error;
      leases.lost(LEASE);
      return null;
    }
  }

  async #tidy(lease: Lease): Promise<{ made: number; removed: number }> {
    const { store, partitionIdSpan, kept, chores, meter, log } = this.#parts;
    const made = await store.ensurePartitions(lease, partitionIdSpan, PARTITIONS_AHEAD);
    meter.gauge('svc_partition_default_rows', await store.defaultRows());
    let removed = 0;
    if (kept.executionDays > 0) {
      while (lease.isHeld() && (await store.dropEndedPartition(lease, kept.executionDays))) removed += 1;
      removed += await untilFew(lease, () => store.removeEnded(lease, kept.executionDays, BATCH));
    }
    removed += await untilFew(lease, () => store.removeOld(lease, kept, BATCH));
    for (const chore of chores) removed += await untilFew(lease, () => chore(lease));
    if (made > 0 || removed > 0) log.info('The daily work was done', { partitions_made: made, removed });
    return { made, removed };
  }
}

/** Batches until one comes back small. */
async function untilFew(lease: Lease, batch: () => Promise<number>): Promise<number> {
  let total = 0;
  for (let count = BATCH; count >= BATCH && lease.isHeld(); total += count) count = await batch();
  return total;
}
