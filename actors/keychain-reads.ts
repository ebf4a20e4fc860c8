/**
 * The mailbox of the keychain's entries: reads of one entry go one after another, and those that arrive while one is
 * under way go together as the next. A thousand readers of one token are a handful of statements; each still has its
 * own count in its answer, and at most one of them is granted the renewal.
 */

import type { RenewalAnswer } from '../machines/keychain/reply.ts';
import { isDue, type SeenEntry } from '../machines/keychain/reply.ts';
import { type AuditPolicy, type AuditRow, audited } from './audit.ts';
import { DomainError } from './errors.ts';
import type { KeychainStore, Touched } from './keychain-store.ts';

export interface EntryRead {
  readonly cacheKey: string;
  readonly claimRenewal: boolean;
  readonly workerId: string | null;
  readonly audit: AuditRow;
}

/** One reader's share of what a statement found. */
export interface ReadEntry {
  readonly row: Touched;
  readonly entry: SeenEntry;
  /** This reader's own number among the counted reads. */
  readonly accessCount: number;
  readonly renewal: RenewalAnswer | null;
}

interface Waiting {
  readonly read: EntryRead;
  readonly resolve: (entry: ReadEntry | null) => void;
  readonly reject: (error: unknown) => void;
}

/** Readers that may wait for one entry; more are refused with `queue_unavailable`. */
const WAITING_MAX = 8_192;
/** Reads of one statement. */
const TOGETHER_MAX = 512;

export class KeychainReads {
  readonly #store: Pick<KeychainStore, 'touch'>;
  readonly #refreshSeconds: number;
  readonly #grantSeconds: number;
  readonly #audit: AuditPolicy;
  /** Present while a statement for this entry is under way. */
  readonly #waiting = new Map<string, Waiting[]>();

  constructor(
    store: Pick<KeychainStore, 'touch'>,
    options: { readonly refreshSeconds: number; readonly grantSeconds: number; readonly audit: AuditPolicy },
  ) {
    this.#store = store;
    this.#audit = options.audit;
    this.#refreshSeconds = options.refreshSeconds;
    this.#grantSeconds = options.grantSeconds;
  }

  /** Null: there is no such entry. */
  read(read: EntryRead): Promise<ReadEntry | null> {
    return new Promise((resolve, reject) => {
      const waiting = { read, resolve, reject };
      const queue = this.#waiting.get(read.cacheKey);
      if (queue === undefined) {
        this.#waiting.set(read.cacheKey, []);
        void this.#serve(read.cacheKey, [waiting]);
      } else if (queue.length < WAITING_MAX) {
        queue.push(waiting);
      } else {
        reject(new DomainError('queue_unavailable', 'Too many readers wait for this keychain entry'));
      }
    });
  }

  async #serve(cacheKey: string, first: readonly Waiting[]): Promise<void> {
    for (let batch = first; batch.length > 0; batch = this.#next(cacheKey)) await this.#together(cacheKey, batch);
  }

  #next(cacheKey: string): readonly Waiting[] {
    const batch = this.#waiting.get(cacheKey)?.splice(0, TOGETHER_MAX) ?? [];
    if (batch.length === 0) this.#waiting.delete(cacheKey);
    return batch;
  }

  async #together(cacheKey: string, batch: readonly Waiting[]): Promise<void> {
    const renewer = batch.find(({ read }) => read.claimRenewal) ?? null;
    try {
      const row = await audited(this.#audit, cacheKey, (withRows) =>
        this.#store.touch({
          cacheKey,
          reads: batch.length,
          renewer: renewer === null ? null : { workerId: renewer.read.workerId },
          refreshSeconds: this.#refreshSeconds,
          grantSeconds: this.#grantSeconds,
          audit: withRows ? batch.map(({ read }) => read.audit) : [],
        }),
      );
      batch.forEach((waiting, index) => {
        waiting.resolve(row === null ? null : this.#share(row, batch.length - 1 - index, waiting, renewer));
      });
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  #share(row: Touched, after: number, waiting: Waiting, renewer: Waiting | null): ReadEntry {
    const { credentialType, cacheType, scope, expiresAt, autoRenew, at, isLive, renewalUntil } = row;
    const entry = { credentialType, cacheType, scope, expiresAt, autoRenew, at, isLive, renewalUntil };
    const asks = waiting.read.claimRenewal && isDue(entry, this.#refreshSeconds) && renewalUntil !== null;
    return {
      row,
      entry,
      accessCount: row.accessCount - after,
      renewal: asks ? { granted: row.granted && waiting === renewer, until: renewalUntil } : null,
    };
  }
}
