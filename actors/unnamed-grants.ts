/**
 * Grants a worker has not named yet. A grant is committed before the worker hears of it, so its answer can be lost: with
 * the connection, or with this whole process. The worker then repeats the claim by its id, and whatever it never names
 * (in `holding` or in a report) is offered again after a while; otherwise it would lie claimed by a healthy worker that
 * knows nothing of it. Grants of a process that died are learned from the rows when the worker first speaks to this one.
 */
import { hintOf } from './command-hint.ts';
import type { CommandHint, CommandRow } from './ports.ts';
import { Recent } from './recent.ts';

/** A worker names what it holds with every heartbeat, so silence for this long means that it does not have it. */
const FORGOTTEN_AFTER_MS = 10_000;
/** By then the lease is over and the sweep looks after it. */
const OFFERS_MAX = 12;
/** A commit whose answer was lost may show up late, and a worker may be served by several processes in turn. */
const LEARN_EVERY_MS = 10_000;
/** Names come and go; what was forgotten of one that still speaks is learned from the rows again. */
const WORKERS_MAX = 10_000;

interface Unnamed {
  readonly hint: CommandHint;
  /** Null: learned from the rows, which know under which claim id it was granted. */
  readonly claimId: string | null;
  /** When it was granted, learned or offered last. */
  offeredAt: number;
  offers: number;
}

interface Known {
  readonly grants: Map<number, Unnamed>;
  learnedAt: number;
  learning: Promise<void>;
}

export class UnnamedGrants {
  readonly #heldBy: (workerId: string) => Promise<readonly CommandHint[]>;
  readonly #workers = new Recent<string, Known>({ countMax: WORKERS_MAX, sizeMax: WORKERS_MAX });

  constructor(heldBy: (workerId: string) => Promise<readonly CommandHint[]>) {
    this.#heldBy = heldBy;
  }

  /** Whether a claim with this id may have been granted something the worker does not know of. */
  async mayKnow(workerId: string, claimId: string, now: number): Promise<boolean> {
    const grants = await this.#learned(workerId, now);
    for (const grant of grants.values()) if (grant.claimId === null || grant.claimId === claimId) return true;
    return false;
  }

  granted(row: CommandRow, claimId: string, now: number): void {
    if (row.workerId === null) return;
    // Not the row itself, which would keep its whole context alive.
    const hint = hintOf(row);
    this.#of(row.workerId).grants.set(row.commandId, { hint, claimId, offeredAt: now, offers: 0 });
  }

  /** The worker spoke of these commands, or they are closed. */
  named(workerId: string, commandIds: Iterable<number>): void {
    const grants = this.#workers.get(workerId)?.grants;
    if (grants === undefined || grants.size === 0) return;
    for (const commandId of commandIds) grants.delete(commandId);
  }

  /** Something may have been granted that nobody here knows of: the rows are looked at with the next claim. */
  doubt(workerId: string): void {
    this.#of(workerId).learnedAt = Number.NEGATIVE_INFINITY;
  }

  /** What the worker holds and has not named for too long; each is told again after the same time. */
  async forgotten(workerId: string, now: number): Promise<readonly CommandHint[]> {
    const grants = await this.#learned(workerId, now);
    const due = [...grants].filter(([, grant]) => now - grant.offeredAt >= FORGOTTEN_AFTER_MS);
    if (due.length === 0) return [];
    const held = new Set((await this.#heldBy(workerId)).map((hint) => hint.commandId));
    const hints: CommandHint[] = [];
    for (const [commandId, grant] of due) {
      grant.offeredAt = now;
      grant.offers += 1;
      if (grant.offers >= OFFERS_MAX || !held.has(commandId)) grants.delete(commandId);
      if (held.has(commandId)) hints.push({ ...grant.hint, again: true });
    }
    return hints;
  }

  async #learned(workerId: string, now: number): Promise<Map<number, Unnamed>> {
    const known = this.#of(workerId);
    if (now - known.learnedAt >= LEARN_EVERY_MS) {
      known.learnedAt = now;
      known.learning = this.#learn(workerId, known, now);
      known.learning.catch(() => this.doubt(workerId));
    }
    await known.learning;
    return known.grants;
  }

  async #learn(workerId: string, { grants }: Known, now: number): Promise<void> {
    for (const hint of await this.#heldBy(workerId)) {
      if (!grants.has(hint.commandId)) grants.set(hint.commandId, { hint, claimId: null, offeredAt: now, offers: 0 });
    }
  }

  #of(workerId: string): Known {
    const known = this.#workers.get(workerId);
    if (known !== undefined) return known;
    const fresh = { grants: new Map(), learnedAt: Number.NEGATIVE_INFINITY, learning: Promise.resolve() };
    this.#workers.put(workerId, fresh, 1);
    return fresh;
  }
}
