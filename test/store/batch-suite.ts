/** What every store must do with batches: run on the one in memory and the one on PostgreSQL. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { BatchMove, BatchRow, BatchStore, Store } from '../../actors/ports.ts';
import { command, event, execution, flush, head, NO_BATCHES, START } from '../conformance/rows.ts';

export interface BatchHarness {
  readonly store: Store;
  readonly batches: BatchStore;
  readonly catalogId: number;
  nextId(): number;
  close(): Promise<void>;
}

export function batchRow(executionId: number, requestId: number, more: Partial<BatchRow> = {}): BatchRow {
  return {
    ...{ requestId, executionId, idempotencyKey: null, bodyHash: 'ab'.repeat(32), state: 'accepted', errorCode: null },
    ...{ message: null, eventIds: [2, 3], eventCount: 2, commandsGenerated: 0, workerId: null, deadlineAt: null },
    ...{ queueWaitMs: null, timings: null, createdAt: START, updatedAt: START },
    ...more,
  };
}

export function moveOf(row: BatchRow, state: BatchRow['state'], more: Partial<BatchMove> = {}): BatchMove {
  const { requestId, executionId, errorCode, message, commandsGenerated, deadlineAt, queueWaitMs, timings } = row;
  const same = { requestId, executionId, errorCode, message, commandsGenerated, deadlineAt, queueWaitMs, timings };
  return { ...same, from: row.state, fromDeadlineAt: row.deadlineAt, state, ...more };
}

export function describeBatchStore(name: string, open: () => Promise<BatchHarness>): void {
  describe(name, () => {
    let harness: BatchHarness;
    let store: Store;
    let batches: BatchStore;

    beforeAll(async () => {
      harness = await open();
      ({ store, batches } = harness);
    });
    afterAll(() => harness.close());

    async function newExecution(): Promise<number> {
      const id = harness.nextId();
      const row = execution(id, harness.catalogId, { path: `suite/${id}` });
      await store.commit(flush({ started: [row], events: [event(id, harness.catalogId, 1)] }));
      return id;
    }

    const accept = (...accepted: readonly BatchRow[]) => store.commit(flush({ batches: { ...NO_BATCHES, accepted } }));
    const move = (...moved: readonly BatchMove[]) => store.commit(flush({ batches: { ...NO_BATCHES, moved } }));

    test('a row comes back as it was accepted and as it was moved', async () => {
      const executionId = await newExecution();
      const row = batchRow(executionId, harness.nextId(), { idempotencyKey: 'k', workerId: 'w' });
      await accept(row);
      expect(await batches.find([row.requestId])).toEqual([row]);
      expect(await batches.byKey(executionId, 'k')).toEqual(row);
      expect(await batches.byKey(executionId, 'other')).toBeNull();
      const deadlineAt = '2026-11-20T10:15:17.000Z';
      await move(moveOf(row, 'processing', { deadlineAt, queueWaitMs: 1.5 }));
      const [processing] = await batches.find([row.requestId]);
      expect(processing).toMatchObject({ state: 'processing', deadlineAt, queueWaitMs: 1.5 });
      if (processing === undefined) throw new Error('the batch is gone');
      await move(moveOf(processing, 'completed', { commandsGenerated: 2, timings: { processing_ms: 6.1 } }));
      expect(await batches.find([row.requestId])).toEqual([
        expect.objectContaining({ state: 'completed', commandsGenerated: 2, timings: { processing_ms: 6.1 } }),
      ]);
    });

    test('a move of a row that has gone round to the same state meanwhile is refused', async () => {
      const executionId = await newExecution();
      const row = batchRow(executionId, harness.nextId());
      await accept(row);
      const stored = async () => (await batches.find([row.requestId]))[0] ?? row;
      await move(moveOf(row, 'processing', { deadlineAt: '2026-11-20T10:15:17.000Z' }));
      await move(moveOf(await stored(), 'failed', { errorCode: 'processing_timeout', message: 'late' }));
      await move(moveOf(await stored(), 'accepted', { errorCode: null, message: null }));
      const late = move(moveOf(row, 'processing', { deadlineAt: '2026-11-20T10:15:29.000Z' }));
      await expect(late).rejects.toMatchObject({ name: 'RefusedWriteError', reason: 'batch_moved' });
      const again = await stored();
      expect(again).toMatchObject({ state: 'accepted', deadlineAt: '2026-11-20T10:15:17.000Z' });
      await move(moveOf(again, 'processing', { deadlineAt: '2026-11-20T10:15:30.000Z' }));
      expect(await stored()).toMatchObject({ state: 'processing', deadlineAt: '2026-11-20T10:15:30.000Z' });
    });

    test('a key is used once in an execution, and nothing of the second use is written', async () => {
      const executionId = await newExecution();
      await accept(batchRow(executionId, harness.nextId(), { idempotencyKey: 'k' }));
      const second = batchRow(executionId, harness.nextId(), { idempotencyKey: 'k' });
      const events = [event(executionId, harness.catalogId, 2)];
      const both = flush({ events, heads: [head(executionId, 1, 2)], batches: { ...NO_BATCHES, accepted: [second] } });
      await expect(store.commit(both)).rejects.toMatchObject({ name: 'RefusedWriteError', reason: 'batch_key' });
      expect(await store.events(executionId, [2])).toEqual([]);
      await accept(batchRow(await newExecution(), harness.nextId(), { idempotencyKey: 'k' }));
    });

    test('a batch moves only from the state it was read in', async () => {
      const row = batchRow(await newExecution(), harness.nextId());
      await accept(row);
      await move(moveOf(row, 'processing'));
      await expect(move(moveOf(row, 'processing'))).rejects.toMatchObject({ reason: 'batch_moved' });
      const gone = moveOf(batchRow(row.executionId, harness.nextId()), 'processing');
      await expect(move(gone)).rejects.toMatchObject({ reason: 'batch_moved' });
    });

    test('unfinished ones are counted, listed by execution, and found when nobody minds them', async () => {
      const executionId = await newExecution();
      const before = await batches.depth();
      const rows = [harness.nextId(), harness.nextId()].map((id) => batchRow(executionId, id));
      for (const [index, row] of rows.entries()) {
        const marker = event(executionId, harness.catalogId, index + 2, {
          type: 'batch.accepted',
          meta: { batch_request_id: String(row.requestId) },
        });
        const from = index + 1;
        await store.commit(
          flush({
            events: [marker],
            heads: [head(executionId, from, from + 1)],
            batches: { ...NO_BATCHES, accepted: [row] },
          }),
        );
      }
      expect(await batches.depth()).toBe(before + 2);
      expect((await batches.openOf(executionId)).map((row) => row.requestId)).toEqual(rows.map((row) => row.requestId));
      const stranded = async (seconds: number) =>
        (await batches.stranded(seconds, 1_000)).filter((job) => job.executionId === executionId);
      expect(await stranded(0)).toHaveLength(2);
      const [first] = rows;
      if (first === undefined) throw new Error('no row');
      await move(moveOf(first, 'processing', { deadlineAt: '2199-01-01T00:00:00.000Z' }));
      expect(await stranded(0)).toHaveLength(1);
    });

    test('a look before filing has the commands, their rows and the reports of this execution only', async () => {
      const executionId = await newExecution();
      const row = command(executionId, harness.catalogId, harness.nextId(), { eventId: 1 });
      const rows = [
        event(executionId, harness.catalogId, 2, { type: 'command.started', commandId: row.commandId }),
        event(executionId, harness.catalogId, 3, { type: 'report.note', reportId: 'r', reportSeq: 0 }),
      ];
      await store.commit(flush({ issued: [row], events: rows, heads: [head(executionId, 1, 3)] }));
      const known = await batches.filedBefore(executionId, [row.commandId, 4_242], ['r', 'other']);
      expect(known.commands.map((each) => each.commandId)).toEqual([row.commandId]);
      expect(known.events.map((each) => each.eventId)).toEqual([2]);
      expect(known.reported.map((each) => each.eventId)).toEqual([3]);
      expect(known.lastEventId).toBe(3);
      const other = await batches.filedBefore(await newExecution(), [row.commandId], ['r']);
      expect(other).toMatchObject({ commands: [], events: [], reported: [] });
    });

    test('the effects of events are the commands they caused and the end', async () => {
      const executionId = await newExecution();
      const rows = [
        event(executionId, harness.catalogId, 2, { type: 'command.completed', meta: { batch_request_id: '77' } }),
        event(executionId, harness.catalogId, 3, { type: 'command.issued', causeId: 2 }),
        event(executionId, harness.catalogId, 4, { type: 'execution.cancelled' }),
      ];
      await store.commit(flush({ events: rows, heads: [head(executionId, 1, 4)] }));
      expect(await batches.effectsOf(executionId, 77, [2])).toEqual({ issued: 1, endedBy: 4 });
      expect(await batches.effectsOf(executionId, 77, [])).toEqual({ issued: 0, endedBy: 4 });
      expect(await batches.effectsOf(executionId, 78, [2])).toEqual({ issued: 0, endedBy: 4 });
    });

    test('processors are live while they say so', async () => {
      await batches.announceProcessor('p1', 60);
      await batches.announceProcessor('p1', 60);
      await batches.announceProcessor('p2', 60);
      await batches.announceProcessor('p3', 0);
      expect(await batches.liveProcessors()).toBe(2);
      await batches.withdrawProcessor('p2');
      expect(await batches.liveProcessors()).toBe(1);
    });
  });
}
