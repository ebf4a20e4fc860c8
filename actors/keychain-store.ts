/**
 * The rows behind the keychain, as a port. Data comes and goes sealed. A read is one statement that looks, judges by
 * the database's clock, counts and audits; nothing can come between its parts.
 */

import type { JsonMap } from '../machines/json.ts';
import type { RemovalReason } from '../machines/keychain/events.ts';
import type { EntryScope } from '../machines/keychain/scope.ts';
import type { AuditRow } from './audit.ts';
import type { Flush } from './ports.ts';
import type { KeychainListing, KeychainLogRow } from './services.ts';

/** A row of `core.keychain`. Instants are ISO 8601 UTC. */
export interface KeychainRow {
  readonly cacheKey: string;
  readonly name: string;
  readonly catalogId: number;
  readonly credentialType: string;
  readonly cacheType: 'secret' | 'token';
  readonly scope: EntryScope;
  readonly executionId: number | null;
  readonly parentExecutionId: number | null;
  readonly rootExecutionId: number | null;
  readonly sealed: string;
  readonly schema: JsonMap | null;
  readonly expiresAt: string;
  readonly autoRenew: boolean;
  readonly renewConfig: StoredRenewConfig | null;
}

/** The renewal request with its headers and data sealed together. */
export interface StoredRenewConfig {
  readonly endpoint: string;
  readonly method: string;
  readonly token_field: string;
  readonly ttl_field: string;
  readonly sealed: string;
}

/** A row as a look found it, with what the look decided. */
export interface SeenRow extends KeychainRow {
  readonly at: string;
  readonly isLive: boolean;
  readonly accessCount: number;
  readonly accessedAt: string | null;
  readonly renewalUntil: string | null;
}

/** Reads of one entry that go together. */
export interface Touch {
  readonly cacheKey: string;
  /** How many reads; each is counted when the entry is live. */
  readonly reads: number;
  /** Who renews, should the entry be due and nobody else renewing; null: nobody asks to. */
  readonly renewer: { readonly workerId: string | null } | null;
  readonly refreshSeconds: number;
  readonly grantSeconds: number;
  /** Written when something secret is going to be shown: data of a live entry, or a renewal request. */
  readonly audit: readonly AuditRow[];
}

export interface Touched extends SeenRow {
  readonly granted: boolean;
}

/** What one transaction may do with one entry. */
export interface KeychainTransaction {
  hasCatalogEntry(catalogId: number): Promise<boolean>;
  /** Keeps the end of an execution away until the transaction is over. True: it has ended. */
  holdOwner(executionId: number): Promise<boolean>;
  /** Locks the key itself, so that two first stores of it follow each other. */
  claim(cacheKey: string): Promise<SeenRow | null>;
  put(row: KeychainRow): Promise<void>;
  remove(cacheKey: string): Promise<void>;
  /** The next row of the entry's log. */
  append(cacheKey: string, type: 'entry.stored' | 'entry.renewed' | 'entry.removed', context: JsonMap): Promise<void>;
  audit(row: AuditRow): Promise<void>;
}

export interface KeychainStore {
  /** Commits what `work` did, or nothing when it throws. */
  transaction<T>(work: (tx: KeychainTransaction) => Promise<T>): Promise<T>;
  /** One statement (api 4.4): touches and returns. Null: there is no such entry. */
  touch(touch: Touch): Promise<Touched | null>;
  /** A look for the service's own use, which counts nothing. */
  find(cacheKey: string): Promise<SeenRow | null>;
  /** The root of the first of these executions that is known here. */
  rootOf(executionIds: readonly number[]): Promise<number | null>;
  list(catalogId: number): Promise<readonly KeychainListing[]>;
  log(filter: {
    catalogId: number;
    name: string | null;
    after: { cacheKey: string; seq: number } | null;
    limit: number;
  }): Promise<readonly KeychainLogRow[]>;
  /** `local` entries of these executions and `shared` entries of these roots, as their terminal event does. */
  removeOf(executionIds: readonly number[]): Promise<void>;
  /** Entries expired for longer than this, oldest first; answers how many. */
  removeExpired(ages: { plainSeconds: number; renewingSeconds: number }, limit: number): Promise<number>;
}

/** Why an entry of this scope goes when its owner ends. */
export function endingOf(scope: EntryScope): RemovalReason {
  return scope === 'shared' ? 'root_ended' : 'execution_ended';
}

/** Executions whose terminal event a flush writes; their entries go in the same transaction. */
export function endedBy(flush: Pick<Flush, 'heads' | 'started'>): readonly number[] {
  return [
    ...flush.heads.filter((head) => head.end !== null).map((head) => head.executionId),
    ...flush.started.filter((row) => row.status !== 'running').map((row) => row.executionId),
  ];
}
