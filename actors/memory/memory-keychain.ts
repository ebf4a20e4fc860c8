/**
 * The KeychainStore in memory, for tests and the simulator. Transactions go one after another, which is what the locks
 * of the one on PostgreSQL come to for a single entry; a throw leaves nothing behind.
 */
import { instantOf, isoOf } from '../../machines/command/instant.ts';
import type { JsonMap } from '../../machines/json.ts';
import type { AuditRow } from '../audit.ts';
import { endingOf, type KeychainRow, type KeychainStore, type SeenRow } from '../keychain-store.ts';
import type { Clock, ExecutionRow } from '../ports.ts';
import type { KeychainLogRow } from '../services.ts';

interface Stored {
  readonly row: KeychainRow;
  accessCount: number;
  accessedAt: string | null;
  renewalUntil: string | null;
}

export interface MemoryKeychain extends KeychainStore {
  /** What the terminal events of these executions take with them; part of a commit. */
  end(executionIds: readonly number[]): void;
  readonly audits: readonly AuditRow[];
  readonly events: readonly KeychainLogRow[];
}

export interface MemoryKeychainParts {
  readonly clock: Clock;
  readonly hasCatalogEntry: (catalogId: number) => boolean;
  readonly execution: (executionId: number) => Promise<ExecutionRow | null>;
}

export function createMemoryKeychain({ clock, hasCatalogEntry, execution }: MemoryKeychainParts): MemoryKeychain {
  const entries = new Map<string, Stored>();
  const audits: AuditRow[] = [];
  const events: KeychainLogRow[] = [];
  let last: Promise<unknown> = Promise.resolve();

  function seen(stored: Stored): SeenRow {
    const { row, ...counts } = stored;
    return { ...row, ...counts, at: isoOf(clock.now()), isLive: instantOf(row.expiresAt) > clock.now() };
  }

  function append(cacheKey: string, type: string, context: JsonMap): void {
    const seq = events.filter((event) => event.cacheKey === cacheKey).length + 1;
    events.push({ cacheKey, seq, type, at: isoOf(clock.now()), context });
  }

  function drop(reason: (stored: Stored) => string | null): number {
    let dropped = 0;
    for (const [cacheKey, stored] of entries) {
      const why = reason(stored);
      if (why === null) continue;
      entries.delete(cacheKey);
      append(cacheKey, 'entry.removed', { scope: stored.row.scope, reason: why });
      dropped += 1;
    }
    return dropped;
  }

  function end(executionIds: readonly number[]): void {
    const ended = new Set(executionIds);
    drop(({ row }) => {
      const owner = row.scope === 'local' ? row.executionId : row.scope === 'shared' ? row.rootExecutionId : null;
      return owner !== null && ended.has(owner) ? endingOf(row.scope) : null;
    });
  }

  return {
    audits,
    events,
    end,
    transaction(work) {
      const run = async () => {
        const before = { entries: new Map(entries), events: events.length, audits: audits.length };
        try {
          return await work({
            hasCatalogEntry: async (catalogId) => hasCatalogEntry(catalogId),
            holdOwner: async (id) => ((await execution(id))?.status ?? 'running') !== 'running',
            async claim(cacheKey) {
              const stored = entries.get(cacheKey);
              return stored === undefined ? null : seen(stored);
            },
            async put(row) {
              entries.set(row.cacheKey, { row, accessCount: 0, accessedAt: isoOf(clock.now()), renewalUntil: null });
            },
            async remove(cacheKey) {
              entries.delete(cacheKey);
            },
            append: async (cacheKey, type, context) => append(cacheKey, type, context),
            async audit(row) {
              audits.push(row);
            },
          });
        } catch (error) {
          entries.clear();
          for (const [cacheKey, stored] of before.entries) entries.set(cacheKey, stored);
          events.length = before.events;
          audits.length = before.audits;
          throw error;
        }
      };
      const result = last.then(run, run);
      last = result.catch(() => {});
      return result;
    },
    async touch({ cacheKey, reads, renewer, refreshSeconds, grantSeconds, audit }) {
      const stored = entries.get(cacheKey);
      if (stored === undefined) return null;
      const now = clock.now();
      const { expiresAt, autoRenew } = stored.row;
      const isLive = instantOf(expiresAt) > now;
      const isFree = stored.renewalUntil === null || instantOf(stored.renewalUntil) <= now;
      const isDue = autoRenew && instantOf(expiresAt) < now + refreshSeconds * 1000;
      const granted = renewer !== null && isDue && isFree;
      if (isLive) {
        stored.accessCount += reads;
        stored.accessedAt = isoOf(now);
      }
      if (granted) stored.renewalUntil = isoOf(now + grantSeconds * 1000);
      if (isLive || autoRenew) audits.push(...audit);
      return { ...seen(stored), granted };
    },
    async find(cacheKey) {
      const stored = entries.get(cacheKey);
      return stored === undefined ? null : seen(stored);
    },
    async rootOf(executionIds) {
      for (const id of executionIds) {
        const row = await execution(id);
        if (row !== null) return row.rootExecutionId;
      }
      return null;
    },
    async list(catalogId) {
      return [...entries.values()]
        .filter(({ row }) => row.catalogId === catalogId)
        .map(({ row, accessCount }) => ({
          name: row.name,
          cacheKey: row.cacheKey,
          scope: row.scope,
          credentialType: row.credentialType,
          cacheType: row.cacheType,
          expiresAt: row.expiresAt,
          expired: instantOf(row.expiresAt) <= clock.now(),
          autoRenew: row.autoRenew,
          accessCount,
        }))
        .sort((a, b) => (a.cacheKey < b.cacheKey ? -1 : 1));
    },
    async log({ catalogId, name, after, limit }) {
      const order = (a: { cacheKey: string; seq: number }, b: { cacheKey: string; seq: number }) =>
        a.cacheKey === b.cacheKey ? a.seq - b.seq : a.cacheKey < b.cacheKey ? -1 : 1;
      return events
        .filter(({ cacheKey }) => {
          const [entry, catalog] = cacheKey.split(':');
          return catalog === String(catalogId) && (name === null || entry === name);
        })
        .filter((event) => after === null || order(event, after) > 0)
        .sort(order)
        .slice(0, limit);
    },
    async removeOf(executionIds) {
      end(executionIds);
    },
    async removeExpired({ plainSeconds, renewingSeconds }, limit) {
      let left = limit;
      return drop(({ row }) => {
        const kept = (row.autoRenew ? renewingSeconds : plainSeconds) * 1000;
        if (left === 0 || instantOf(row.expiresAt) > clock.now() - kept) return null;
        left -= 1;
        return 'expired';
      });
    },
  };
}
