/**
 * The database of a world: the memory stores of production's ports, and the rows that only PostgreSQL has had so far
 * (workers, sweeps, reconciliation, jobs). Every statement happens at one instant of virtual time; leases are proved in
 * the commit itself. Whoever watches hears of each commit with the rows as they were before it.
 */

import type { AutoResumeStore } from '../../actors/auto-resume.ts';
import { hintOf } from '../../actors/command-hint.ts';
import { type Fence, LeaseLostError } from '../../actors/lease.ts';
import { createMemoryKeychain, type MemoryKeychain } from '../../actors/memory/memory-keychain.ts';
import { createMemoryLeases, type MemoryLeases } from '../../actors/memory/memory-leases.ts';
import { createMemoryStore, type MemoryStore } from '../../actors/memory/memory-store.ts';
import type { BatchRow, Clock, CommandRow, ExecutionRow, Flush } from '../../actors/ports.ts';
import type { SweepStore, SweptRow } from '../../actors/reaper.ts';
import type { ReconcileStore } from '../../actors/reconcile.ts';
import type { Registration, WorkerRow } from '../../actors/services.ts';
import type { RuntimeStore } from '../../actors/worker-service.ts';
import { TERMINAL_TYPES } from '../../machines/events.ts';

/** What a commit met. */
export interface Before {
  readonly commands: ReadonlyMap<number, CommandRow>;
  readonly executions: ReadonlyMap<number, ExecutionRow>;
  readonly batches: ReadonlyMap<number, BatchRow>;
}

export interface Database {
  readonly clock: Clock;
  readonly store: MemoryStore;
  readonly leases: MemoryLeases;
  readonly keychain: MemoryKeychain;
  readonly runtime: RuntimeStore;
  readonly sweeps: SweepStore;
  readonly reconcile: ReconcileStore;
  readonly interrupted: AutoResumeStore;
  readonly catalogIds: Set<number>;
  /** Tokens under which something was written, in order. */
  readonly fenced: { readonly name: string; readonly token: number }[];
  onCommit(listener: (flush: Flush, before: Before) => void): void;
}

export function createSimulatedDatabase(clock: Clock): Database {
  const catalogIds = new Set<number>();
  const listeners: ((flush: Flush, before: Before) => void)[] = [];
  const fenced: { name: string; token: number }[] = [];
  const leases = createMemoryLeases(clock);
  const keychain: MemoryKeychain = createMemoryKeychain({
    clock,
    hasCatalogEntry: (id) => catalogIds.has(id),
    execution: (id) => store.execution(id),
  });
  const store: MemoryStore = createMemoryStore(clock, {}, keychain);
  const commit = store.commit;
  const open = () => store.commands().filter((row) => row.completedAt === null);

  function prove(fence: Fence): void {
    if (!leases.stands(fence)) throw new LeaseLostError(fence.name);
    fenced.push({ name: fence.name, token: fence.token });
  }

  store.commit = async (flush) => {
    for (const fence of flush.fences ?? []) prove(fence);
    const before = await beforeOf(store, flush);
    await commit(flush);
    for (const listener of listeners) listener(flush, before);
  };

  const workers = new Map<string, WorkerRow>();
  const nowText = () => new Date(clock.now()).toISOString();
  const openOf = (name: string) => open().filter((row) => row.workerId === name && row.parkedOn === null).length;
  const shown = (row: WorkerRow): WorkerRow => ({ ...row, openCommands: openOf(row.name) });

  return {
    ...{ clock, store, leases, keychain, catalogIds, fenced },
    onCommit: (listener) => listeners.push(listener),
    runtime: {
      async save(registration: Registration, runtimeId) {
        const old = workers.get(registration.name);
        const restarted = old !== undefined && registration.instance !== null && old.instance !== registration.instance;
        const now = nowText();
        const row: WorkerRow = {
          ...registration,
          instance: registration.instance ?? old?.instance ?? null,
          runtimeId: old?.runtimeId ?? runtimeId,
          registeredAt: old === undefined || restarted ? now : old.registeredAt,
          heartbeatAt: now,
          openCommands: 0,
          createdAt: old?.createdAt ?? now,
          updatedAt: now,
        };
        workers.set(row.name, row);
        return { row: shown(row), restarted };
      },
      async find(name) {
        const row = workers.get(name);
        return row === undefined ? null : shown(row);
      },
      list: async () => [...workers.values()].map(shown),
      async setStatus(name, _kind, status) {
        const row = workers.get(name);
        if (row === undefined) return false;
        const heartbeatAt = status === 'offline' ? row.heartbeatAt : nowText();
        workers.set(name, { ...row, status, heartbeatAt, updatedAt: nowText() });
        return true;
      },
      async beat(beats) {
        for (const { name, at } of beats) {
          const row = workers.get(name);
          if (row === undefined || row.status === 'offline' || Date.parse(row.heartbeatAt) >= Date.parse(at)) continue;
          workers.set(name, { ...row, heartbeatAt: at });
        }
      },
      async expire(except) {
        const silent = [...workers.values()].filter(
          (row) =>
            row.status !== 'offline' &&
            !except.includes(row.name) &&
            Date.parse(row.heartbeatAt) < clock.now() - row.offlineAfterSeconds * 1000,
        );
        for (const row of silent) workers.set(row.name, { ...row, status: 'offline', updatedAt: nowText() });
        return silent.map((row) => row.name);
      },
      async nextOverdueAt() {
        const held = [...workers.values()].filter((row) => row.status !== 'offline' && openOf(row.name) > 0);
        const first = Math.min(...held.map((row) => Date.parse(row.heartbeatAt) + row.offlineAfterSeconds * 1000));
        return held.length === 0 ? null : new Date(first).toISOString();
      },
    },
    sweeps: {
      async page(fence, policy, limit, judge) {
        prove(fence);
        const now = clock.now();
        const holderOf = (row: CommandRow): SweptRow['holder'] => {
          const holder = row.workerId === null ? undefined : workers.get(row.workerId);
          if (holder === undefined) return null;
          const { name, status, offlineAfterSeconds } = holder;
          const registeredAt = Date.parse(holder.registeredAt);
          return { name, status, registeredAt, heartbeatAt: Date.parse(holder.heartbeatAt), offlineAfterSeconds };
        };
        const fresh = (row: CommandRow) =>
          row.republishedAt !== null && Date.parse(row.republishedAt) > now - policy.pendingRetrySeconds * 1000;
        const forgotten = open().filter((row) => {
          if (row.parkedOn !== null || fresh(row)) return false;
          if (row.status === 'PENDING') return Date.parse(row.nextWakeAt ?? '') <= now;
          const holder = holderOf(row);
          if (holder === null || holder.status !== 'ready') return true;
          if (holder.heartbeatAt < now - policy.workerStaleSeconds * 1000) return true;
          const since = Math.max(Date.parse(row.claimedAt ?? ''), Date.parse(row.heartbeatAt ?? row.claimedAt ?? ''));
          return since <= now - policy.hardTimeoutSeconds * 1000;
        });
        const age = (row: CommandRow) => Date.parse((row.status === 'PENDING' ? row.nextWakeAt : row.claimedAt) ?? '');
        const rows = forgotten
          .sort(
            (a, b) =>
              Number(a.status === 'PENDING') - Number(b.status === 'PENDING') ||
              age(a) - age(b) ||
              a.commandId - b.commandId,
          )
          .slice(0, limit);
        if (rows.length === 0) return 0;
        const swept = rows.map((row): SweptRow => {
          const hint = { ...hintOf(row), republishCount: row.republishCount + 1 };
          return { command: row, hint, holder: holderOf(row) };
        });
        const stamps = judge(swept, now);
        await store.postpone(
          stamps.map(({ hint, nextWakeAt }) => ({
            executionId: hint.executionId,
            commandId: hint.commandId,
            nextWakeAt,
            republished: true,
          })),
        );
        return rows.length;
      },
    },
    reconcile: {
      async look(limit) {
        const now = clock.now();
        const running = store.executions().filter((row) => row.status === 'running');
        const inboxes = running.filter((row) => {
          if (row.handledThrough >= row.lastEventId) return false;
          const next = store.log(row.executionId)[row.handledThrough];
          return next !== undefined && Date.parse(next.at) < now - 5_000;
        });
        const ended = running.filter((row) =>
          store.log(row.executionId).some((event) => TERMINAL_TYPES.has(event.type)),
        );
        const status = new Map(store.executions().map((row) => [row.executionId, row.status]));
        const parked = open().filter(
          (row) =>
            row.parkedOn !== null &&
            ((status.get(row.parkedOn) ?? 'running') !== 'running' || Date.parse(row.nextWakeAt ?? '') <= now),
        ).length;
        const ids = (rows: readonly ExecutionRow[]) => rows.map((row) => row.executionId).slice(0, limit);
        return { inboxes: ids(inboxes), ended: ids(ended), parked, expired: 0 };
      },
      async removeExpired(fence) {
        prove(fence);
        return 0;
      },
    },
    interrupted: {
      async runsStarted(from, before, limit) {
        return store
          .executions()
          .filter(
            (row) =>
              row.status === 'running' &&
              Date.parse(row.startTime) >= Date.parse(from) &&
              Date.parse(row.startTime) < Date.parse(before),
          )
          .sort((a, b) => Date.parse(a.startTime) - Date.parse(b.startTime) || a.executionId - b.executionId)
          .slice(0, limit)
          .map(({ executionId, parentExecutionId, lastEventId }) => ({
            ...{ executionId, parentExecutionId, lastEventId },
            commands: open()
              .filter((row) => row.executionId === executionId)
              .map(({ pool, workerId, parkedOn }) => ({ pool, workerId, parkedOn })),
          }));
      },
    },
  };
}

async function beforeOf(store: MemoryStore, flush: Flush): Promise<Before> {
  const commands = new Map<number, CommandRow>();
  for (const id of new Set([
    ...flush.commands.map((row) => row.commandId),
    ...flush.events.flatMap((event) => event.commandId ?? []),
  ])) {
    const row = await store.command(id);
    if (row !== null) commands.set(id, row);
  }
  const executions = new Map<number, ExecutionRow>();
  for (const id of new Set([
    ...flush.heads.map((head) => head.executionId),
    ...flush.events.map((event) => event.executionId),
  ])) {
    const row = await store.execution(id);
    if (row !== null) executions.set(id, row);
  }
  const moved = await store.batches.find(flush.batches.moved.map((move) => move.requestId));
  return { commands, executions, batches: new Map(moved.map((row) => [row.requestId, row])) };
}
