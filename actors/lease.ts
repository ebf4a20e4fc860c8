/**
 * Who may do what only one process may do (api 3.5). A lease is a row with a holder, an end and a token that grows with each
 * take-over. Believing to hold one proves nothing: a process may sleep past the end and wake up. So every write made under a
 * lease carries the token, and the database refuses it when the token is old; memory only saves the questions.
 */
import { instantOf } from '../machines/command/instant.ts';
import type { Clock, Log, Meter } from './ports.ts';

/** What a write made under a lease carries. */
export interface Fence {
  readonly name: string;
  readonly holder: string;
  readonly token: number;
}

/** A row of `core.lease`. Instants are ISO 8601 UTC. */
export interface LeaseRow extends Fence {
  readonly acquiredAt: string;
  readonly renewedAt: string;
  readonly expiresAt: string;
}

/** A server process as others see it, a row of `core.runtime` of kind `server_api`. */
export interface ServerCard {
  readonly uri: string | null;
  readonly version: string;
  readonly pid: number;
  readonly hostname: string;
}

export interface LeaseStore {
  /** Takes a lease that is free, has ended, or is the holder's; answers the row as it is then. Database time decides. */
  take(name: string, holder: string, seconds: number): Promise<LeaseRow>;
  /** Prolongs what is still held under these tokens and answers their names; the same statement says that the holder lives. */
  renew(holder: string, held: readonly Fence[], seconds: number): Promise<readonly string[]>;
  /** Ends a lease at once, if the token is still the present one. */
  release(fence: Fence): Promise<void>;
  list(): Promise<readonly LeaseRow[]>;
  /** Says that this server is here; it counts as gone when it does not renew for `seconds`. */
  enrol(holder: string, card: ServerCard, seconds: number): Promise<void>;
  /** Says that it is not any more. */
  leave(holder: string): Promise<void>;
  /** Servers that are not known to be gone, except this one; `heartbeatAt` and `goneAt` in milliseconds. */
  others(holder: string): Promise<readonly { readonly name: string; heartbeatAt: number; goneAt: number }[]>;
}

/** A write came too late: the lease has gone to somebody else, or has ended. Nothing was written. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';
  readonly lease: string;
  constructor(lease: string, options?: ErrorOptions) {
    super('the lease is held by somebody else', options);
    this.lease = lease;
  }
}

export interface Lease extends Fence {
  /** As far as this process knows: not yet overdue. Spares work; a fence decides. */
  isHeld(): boolean;
}

export interface LeasesParts {
  readonly store: LeaseStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: Meter;
  /** Unique among the processes of a service, also across restarts. */
  readonly holder: string;
  readonly card: ServerCard;
  readonly leaseSeconds: number;
}

interface Held {
  readonly fence: Fence;
  until: number;
}

export class Leases {
  readonly #parts: LeasesParts;
  readonly #held = new Map<string, Held>();
  readonly #taking = new Map<string, Promise<LeaseRow>>();
  #timer: ReturnType<typeof setTimeout> | null = null;
  #isStopped = false;

  constructor(parts: LeasesParts) {
    this.#parts = parts;
  }

  get holder(): string {
    return this.#parts.holder;
  }

  /** Makes this server known and begins to renew. */
  async start(): Promise<void> {
    const { store, holder, card, leaseSeconds } = this.#parts;
    await store.enrol(holder, card, leaseSeconds);
    this.#schedule();
  }

  /** Gives everything back. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    const { store, holder, log } = this.#parts;
    try {
      for (const { fence } of [...this.#held.values()]) await this.release(fence);
      await store.leave(holder);
    } catch (error) {
      // They end by themselves.
      log.warn('The leases of this server could not be given back', { error: textOf(error) });
    }
  }

  /** The lease, when this process holds it or can have it; else null. */
  async acquire(name: string): Promise<Lease | null> {
    return (await this.ask(name)).lease;
  }

  /** The lease if it can be had, and the row that says who holds it. */
  async ask(name: string): Promise<{ readonly lease: Lease | null; readonly row: LeaseRow | null }> {
    if (this.#isStopped) return { lease: null, row: null };
    const known = this.#held.get(name);
    if (known !== undefined && this.#isCurrent(known)) return { lease: this.#leaseOf(known), row: null };
    const row = await this.#take(name);
    if (row.holder !== this.#parts.holder) return { lease: null, row };
    const held = this.#held.get(name);
    return { lease: held === undefined ? null : this.#leaseOf(held), row };
  }

  /** Runs the work if the lease can be had, and gives it back afterwards; null when somebody else holds it. */
  async during<T>(name: string, work: (lease: Lease) => Promise<T>): Promise<T | null> {
    const lease = await this.acquire(name);
    if (lease === null) return null;
    try {
      return await work(lease);
    } finally {
      await this.release(lease).catch(() => {});
    }
  }

  /** Gives one lease back. */
  async release(fence: Fence): Promise<void> {
    if (this.#held.get(fence.name)?.fence.token === fence.token) this.#forget(fence.name);
    await this.#parts.store.release(fence);
  }

  /** A write was refused: what memory believed is wrong. */
  lost(name: string): void {
    if (!this.#held.has(name)) return;
    this.#forget(name);
    this.#parts.meter.count('svc_lease_lost_total', { name });
    this.#parts.log.warn('A lease was lost', { lease: name });
  }

  /** One round of renewal; the timer does this every third of a lease. */
  async renew(): Promise<void> {
    const { store, clock, holder, leaseSeconds } = this.#parts;
    const held = [...this.#held.values()].map(({ fence }) => fence);
    const asked = clock.now();
    const kept = new Set(await store.renew(holder, held, leaseSeconds));
    for (const fence of held) {
      const mine = this.#held.get(fence.name);
      // Given back or taken anew while the answer was on its way.
      if (mine === undefined || mine.fence.token !== fence.token) continue;
      if (kept.has(fence.name)) mine.until = asked + leaseSeconds * 1000;
      else this.lost(fence.name);
    }
  }

  list(): Promise<readonly LeaseRow[]> {
    return this.#parts.store.list();
  }

  others(): ReturnType<LeaseStore['others']> {
    return this.#parts.store.others(this.#parts.holder);
  }

  #take(name: string): Promise<LeaseRow> {
    // Two askers of one process share one question, or the second would raise the token under the first.
    const under = this.#taking.get(name);
    if (under !== undefined) return under;
    const taking = this.#takeNow(name).finally(() => this.#taking.delete(name));
    this.#taking.set(name, taking);
    return taking;
  }

  async #takeNow(name: string): Promise<LeaseRow> {
    const { store, clock, holder, leaseSeconds, meter, log } = this.#parts;
    const asked = clock.now();
    const row = await store.take(name, holder, leaseSeconds);
    if (row.holder !== holder) return row;
    const until = Math.min(asked + leaseSeconds * 1000, instantOf(row.expiresAt));
    this.#held.set(name, { fence: { name, holder, token: row.token }, until });
    meter.gauge('svc_lease_held', 1, { name });
    log.debug('A lease was taken', { lease: name, token: row.token });
    return row;
  }

  #forget(name: string): void {
    this.#held.delete(name);
    this.#parts.meter.gauge('svc_lease_held', 0, { name });
  }

  #isCurrent(held: Held): boolean {
    return this.#held.get(held.fence.name) === held && this.#parts.clock.now() < held.until;
  }

  #leaseOf(held: Held): Lease {
    return { ...held.fence, isHeld: () => this.#isCurrent(held) };
  }

  #schedule(): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(
      () => {
        this.renew()
          .catch((error: unknown) =>
            this.#parts.log.warn('The leases of this server could not be renewed', { error: textOf(error) }),
          )
          .finally(() => this.#schedule());
      },
      (this.#parts.leaseSeconds * 1000) / 3,
    );
    this.#timer.unref?.();
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
