/**
 * Grants a worker has not named yet. A grant is committed before the worker hears of it, so its answer can be lost: with
 * the connection, or with this whole process. The worker then repeats the claim by its id, and whatever it never names
 * (in `holding` or in a report) is offered again after a while; otherwise it would lie claimed by a healthy worker that
 * knows nothing of it. Grants of a process that died are learned from the rows when the worker first speaks to this one.
 */
import type { CommandHint, CommandRow } from './ports.ts';

/** A worker names what it holds with every heartbeat, so silence for this long means that it does not have it. */
const FORGOTTEN_AFTER_MS = 10_000;
/** By then the lease is over and the sweep looks after it. */
const OFFERS_MAX = 12;

interface Unnamed {
  readonly hint: CommandHint;
  /** Null: granted by another process, under a claim id only the row knows. */
  readonly claimId: string | null;
  /** When it was granted or offered last. */
  offeredAt: number;
  offers: number;
}

export class UnnamedGrants {
  readonly #heldBy: (workerId: string) => Promise<readonly CommandHint[]>;
  readonly #workers = new Map<string, Promise<Map<number, Unnamed>>>();

  constructor(heldBy: (workerId: string) => Promise<readonly CommandHint[]>) {
    this.#heldBy = heldBy;
  }

  /** Whether a claim with this id may have been granted something the worker does not know of. */
  async mayKnow(workerId: string, claimId: string, now: number): Promise<boolean> {
    const grants = await this.#of(workerId, now);
    for (const grant of grants.values()) if (grant.claimId === null || grant.claimId === claimId) return true;
    return false;
  }

  async granted(row: CommandRow, claimId: string, now: number): Promise<void> {
    if (row.workerId === null) return;
    const grants = await this.#of(row.workerId, now);
    grants.set(row.commandId, { hint: row, claimId, offeredAt: now, offers: 0 });
  }

  /** The worker spoke of these commands, or they are closed. */
  async named(workerId: string, commandIds: Iterable<number>): Promise<void> {
    const grants = await this.#workers.get(workerId);
    if (grants === undefined || grants.size === 0) return;
    for (const commandId of commandIds) grants.delete(commandId);
  }

  /** What the worker has not named for too long; each is told again after the same time. */
  async forgotten(workerId: string, now: number): Promise<readonly CommandHint[]> {
    const due: CommandHint[] = [];
    const grants = await this.#of(workerId, now);
    for (const [commandId, grant] of grants) {
      if (now - grant.offeredAt < FORGOTTEN_AFTER_MS) continue;
      grant.offeredAt = now;
      grant.offers += 1;
      if (grant.offers >= OFFERS_MAX) grants.delete(commandId);
      due.push(grant.hint);
    }
    return due;
  }

  #of(workerId: string, now: number): Promise<Map<number, Unnamed>> {
    const known = this.#workers.get(workerId);
    if (known !== undefined) return known;
    const learned = this.#heldBy(workerId).then(
      (hints) => new Map(hints.map((hint) => [hint.commandId, { hint, claimId: null, offeredAt: now, offers: 0 }])),
    );
    this.#workers.set(workerId, learned);
    learned.catch(() => this.#workers.delete(workerId));
    return learned;
  }
}
