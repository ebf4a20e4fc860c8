/** Batches of the store in memory: what the constraints of `core.batch_request` refuse, and the questions about its rows. */
import { TERMINAL_TYPES } from '../../machines/events.ts';
import {
  type BatchRow,
  type BatchStore,
  type Clock,
  type CommandRow,
  type EventRow,
  type Flush,
  RefusedWriteError,
} from '../ports.ts';

/** The rows as the flush leaves them; throws what the database would. */
export function prepareBatches(flush: Flush, stored: ReadonlyMap<number, BatchRow>, now: string): readonly BatchRow[] {
  const fresh = new Map<number, BatchRow>();
  for (const row of flush.batches.accepted) {
    const isTaken = [...stored.values(), ...fresh.values()].some(
      (other) =>
        row.idempotencyKey !== null &&
        other.executionId === row.executionId &&
        other.idempotencyKey === row.idempotencyKey,
    );
    if (isTaken) throw new RefusedWriteError('batch_key');
    fresh.set(row.requestId, row);
  }
  for (const { from, fromDeadlineAt, ...move } of flush.batches.moved) {
    const before = fresh.get(move.requestId) ?? stored.get(move.requestId);
    if (before === undefined || before.state !== from) throw new RefusedWriteError('batch_moved');
    if (before.deadlineAt !== fromDeadlineAt) throw new RefusedWriteError('batch_moved');
    fresh.set(move.requestId, { ...before, ...move, updatedAt: now });
  }
  return [...fresh.values()];
}

export function createMemoryBatches(
  rows: ReadonlyMap<number, BatchRow>,
  logOf: (executionId: number) => { readonly events: readonly EventRow[] },
  commands: ReadonlyMap<number, CommandRow>,
  clock: Clock,
): BatchStore {
  const processors = new Map<string, number>();
  const isOpen = (row: BatchRow) => row.state === 'accepted' || row.state === 'processing';
  const inOrder = (executionId: number) =>
    logOf(executionId).events.flatMap((event) =>
      event.type === 'batch.accepted' ? [Number(event.meta['batch_request_id'])] : [],
    );
  return {
    find: async (requestIds) => requestIds.flatMap((requestId) => rows.get(requestId) ?? []),
    byKey: async (executionId, key) =>
      [...rows.values()].find((row) => row.executionId === executionId && row.idempotencyKey === key) ?? null,
    depth: async () => [...rows.values()].filter(isOpen).length,
    async openOf(executionId) {
      return inOrder(executionId)
        .flatMap((requestId) => rows.get(requestId) ?? [])
        .filter(isOpen);
    },
    async stranded(seconds, limit) {
      const before = clock.now() - seconds * 1000;
      const since = (row: BatchRow) =>
        Date.parse((row.state === 'processing' ? row.deadlineAt : null) ?? row.updatedAt);
      return [...rows.values()]
        .filter((row) => isOpen(row) && since(row) <= before)
        .sort((a, b) => a.requestId - b.requestId)
        .slice(0, limit)
        .map(({ requestId, executionId }) => ({ requestId, executionId }));
    },
    async filedBefore(executionId, commandIds, reportIds) {
      const own = [...logOf(executionId).events].sort((a, b) => a.eventId - b.eventId);
      return {
        commands: commandIds.flatMap((commandId) => {
          const row = commands.get(commandId);
          return row?.executionId === executionId ? [row] : [];
        }),
        events: own.filter((event) => event.commandId !== null && commandIds.includes(event.commandId) && !event.stale),
        lastEventId: own.at(-1)?.eventId ?? 0,
        reported: own.filter((event) => event.reportId !== null && reportIds.includes(event.reportId)),
      };
    },
    async effectsOf(executionId, requestId, eventIds) {
      const { events } = logOf(executionId);
      const brought = events.filter(
        ({ eventId, meta }) => eventIds.includes(eventId) && meta['batch_request_id'] === String(requestId),
      );
      const caused = new Set(brought.map((event) => event.eventId));
      return {
        issued: events.filter((event) => event.type === 'command.issued' && caused.has(event.causeId)).length,
        endedBy: events.find((event) => TERMINAL_TYPES.has(event.type))?.causeId ?? null,
      };
    },
    liveProcessors: async () => [...processors.values()].filter((until) => until > clock.now()).length,
    async announceProcessor(holder, seconds) {
      processors.set(holder, clock.now() + seconds * 1000);
    },
    async withdrawProcessor(holder) {
      processors.delete(holder);
    },
  };
}
