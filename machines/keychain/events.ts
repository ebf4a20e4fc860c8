/**
 * What happens to a keychain entry. The first three are rows of its log (`core.keychain_event`); a read is counted on
 * the row and never logged. None of them ever holds a secret, so an entry's history can be shown to anyone.
 */

export interface EntryFacts {
  readonly scope: string;
  readonly credentialType: string;
  readonly cacheType: string;
  /** ISO 8601 UTC. */
  readonly expiresAt: string;
  readonly autoRenew: boolean;
}

export type RemovalReason = 'deleted' | 'execution_ended' | 'root_ended' | 'expired';

/** `at` is the database's time, ISO 8601 UTC. */
export type KeychainEvent =
  | { readonly type: 'entry.stored'; readonly at: string; readonly entry: EntryFacts }
  /** A store that replaced an entry under renewal. */
  | { readonly type: 'entry.renewed'; readonly at: string; readonly entry: EntryFacts }
  | { readonly type: 'entry.read'; readonly at: string }
  /** A reader was chosen to renew; until then nobody else is. */
  | { readonly type: 'entry.renewalGranted'; readonly at: string; readonly until: string }
  | { readonly type: 'entry.removed'; readonly at: string; readonly reason: RemovalReason };
