/** Leases in memory, by a given clock; several holders may share one table. It passes the suite of the one on PostgreSQL. */
import { isoOf } from '../../machines/command/instant.ts';
import type { Fence, LeaseRow, LeaseStore } from '../lease.ts';
import type { Clock } from '../ports.ts';

export interface MemoryLeases extends LeaseStore {
  /** True when the fence would let a write through now. */
  stands(fence: Fence): boolean;
}

export function createMemoryLeases(clock: Clock): MemoryLeases {
  const rows = new Map<string, { row: LeaseRow; until: number }>();
  const servers = new Map<string, { heartbeatAt: number; seconds: number; isHere: boolean }>();

  function stands({ name, holder, token }: Fence): boolean {
    const kept = rows.get(name);
    return kept?.row.holder === holder && kept.row.token === token && kept.until > clock.now();
  }

  function prolong(row: LeaseRow, seconds: number): void {
    const until = clock.now() + seconds * 1000;
    rows.set(row.name, { row: { ...row, renewedAt: isoOf(clock.now()), expiresAt: isoOf(until) }, until });
  }

  return {
    stands,
    async take(name, holder, seconds) {
      const present = rows.get(name);
      if (present !== undefined && present.until > clock.now() && present.row.holder !== holder) return present.row;
      const now = isoOf(clock.now());
      const token = (present?.row.token ?? 0) + 1;
      prolong({ name, holder, token, acquiredAt: now, renewedAt: now, expiresAt: now }, seconds);
      return rows.get(name)?.row ?? unreachable();
    },
    async renew(holder, held, seconds) {
      const server = servers.get(holder);
      if (server !== undefined) servers.set(holder, { ...server, heartbeatAt: clock.now(), isHere: true });
      const kept = held.filter((fence) => fence.holder === holder && stands(fence));
      for (const { name } of kept) prolong(rows.get(name)?.row ?? unreachable(), seconds);
      return kept.map(({ name }) => name);
    },
    async release(fence) {
      const kept = rows.get(fence.name);
      if (kept !== undefined && stands(fence)) rows.set(fence.name, { ...kept, until: clock.now() });
    },
    async list() {
      return [...rows.values()].filter(({ until }) => until > clock.now()).map(({ row }) => row);
    },
    async enrol(holder, _card, seconds) {
      servers.set(holder, { heartbeatAt: clock.now(), seconds, isHere: true });
    },
    async leave(holder) {
      const server = servers.get(holder);
      if (server !== undefined) servers.set(holder, { ...server, isHere: false });
    },
    async others(holder) {
      return [...servers]
        .map(([name, { heartbeatAt, seconds, isHere }]) => ({
          name,
          heartbeatAt,
          goneAt: isHere ? heartbeatAt + seconds * 1000 : 0,
        }))
        .filter(({ name, goneAt }) => name !== holder && goneAt > clock.now());
    },
  };
}

function unreachable(): never {
  throw new Error('a lease that was there a moment ago is gone');
}
