/** The chart of a keychain entry, folded from its log (api 4.4). Reads are not in the log: they are counted on the row. */
import type { JsonMap } from '../json.ts';
import { fold, initialSnapshot } from '../turn.ts';
import type { KeychainEvent, RemovalReason } from './events.ts';
import { keychainMachine } from './machine.ts';

export interface EntryRecord {
  readonly type: string;
  /** ISO 8601 UTC. */
  readonly at: string;
  readonly context: JsonMap;
}

/** By number. `now` is the instant at which it is looked at: an entry whose time is over shows as expired. */
export function foldEntry(records: readonly EntryRecord[], now: string) {
  let snapshot = initialSnapshot(keychainMachine);
  for (const record of records) {
    const event = entryEventOf(record);
    if (event !== null) snapshot = fold(keychainMachine, snapshot, event).snapshot;
  }
  // A read says that time has passed; one that finds a live entry would be counted, so only its verdict is taken over.
  const read = fold(keychainMachine, snapshot, { type: 'entry.read', at: now } as KeychainEvent).snapshot;
  return read.value === 'expired' ? read : snapshot;
}

function entryEventOf({ type, at, context }: EntryRecord): KeychainEvent | null {
  switch (type) {
    case 'entry.stored':
    case 'entry.renewed':
      return {
        type,
        at,
        entry: {
          scope: textIn(context, 'scope'),
          credentialType: textIn(context, 'credential_type'),
          cacheType: textIn(context, 'cache_type'),
          expiresAt: textIn(context, 'expires_at'),
          autoRenew: context['auto_renew'] === true,
        },
      };
    case 'entry.renewalGranted':
      return { type, at, until: textIn(context, 'until') };
    case 'entry.removed':
      // Written by this service from its own list of reasons.
      return { type, at, reason: textIn(context, 'reason') as RemovalReason };
    default:
      return null;
  }
}

function textIn(map: JsonMap, key: string): string {
  const value = map[key];
  return typeof value === 'string' ? value : '';
}
