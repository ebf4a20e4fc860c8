/**
 * What a read answers, without the words of any wire (api 2.9.1, 4.4). An entry is either live and counted, or expired
 * and untouched; the statement that read it has decided which, in the same instant in which it counted.
 */
import { instantOf } from '../command/instant.ts';
import type { RenewConfig } from './renewal.ts';
import type { EntryScope } from './scope.ts';

/** An entry without its data, as it was when it was read. Instants are ISO 8601 UTC. */
export interface SeenEntry {
  readonly credentialType: string;
  readonly cacheType: 'secret' | 'token';
  readonly scope: EntryScope;
  readonly expiresAt: string;
  readonly autoRenew: boolean;
  /** The instant of the read, by the database. */
  readonly at: string;
  readonly isLive: boolean;
  readonly renewalUntil: string | null;
}

/** `until` is the end of the grant, the asker's own or somebody else's. */
export interface RenewalAnswer {
  readonly granted: boolean;
  readonly until: string;
}

export type Reading<Data> =
  | { readonly status: 'not_found'; readonly cacheKey: string }
  | {
      readonly status: 'expired';
      readonly cacheKey: string;
      readonly entry: SeenEntry;
      /** Null unless the entry renews itself. */
      readonly renewConfig: RenewConfig | null;
      readonly renewal: RenewalAnswer | null;
    }
  | {
      readonly status: 'success';
      readonly cacheKey: string;
      readonly entry: SeenEntry;
      readonly data: Data;
      /** This read included. */
      readonly accessCount: number;
      readonly accessedAt: string;
      /** Only for the reader who is granted the renewal. */
      readonly renewConfig: RenewConfig | null;
      readonly renewal: RenewalAnswer | null;
    };

/** Seconds of life left at the instant of the read, with fractions. */
export function secondsLeft({ expiresAt, at }: Pick<SeenEntry, 'expiresAt' | 'at'>): number {
  return (instantOf(expiresAt) - instantOf(at)) / 1000;
}

/** Whether an entry wants a new token: it renews itself and is expired or close to it. */
export function isDue(entry: SeenEntry, refreshSeconds: number): boolean {
  return entry.autoRenew && (!entry.isLive || secondsLeft(entry) < refreshSeconds);
}
