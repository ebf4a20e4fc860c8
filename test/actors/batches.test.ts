import { describe, expect, test } from 'vitest';
import { createBatches } from '../../actors/batches.ts';
import { UnavailableError } from '../../actors/ports.ts';
import { checkStore } from '../support/invariants.ts';
import { first, step } from '../support/playbooks.ts';
import { BatchWorld, done, item, note } from './batch-world.ts';

const TWO = { 'demo/two': [step('a', first({ step: 'b' })), step('b')] };

function permutations(items: readonly number[]): readonly (readonly number[])[] {
  if (items.length < 2) return [items];
  return items.flatMap((item, at) => permutations(items.toSpliced(at, 1)).map((rest) => [item, ...rest]));
}

async function open(): Promise<{ world: BatchWorld; executionId: number }> {
  const world = new BatchWorld(TWO);
  const { executionId } = await world.start('demo/two');
  return { world, executionId };
}

async function running() {
  const opened = await open();
  await opened.world.batches.start();
  return opened;
}

const code = (refusal: string) => expect.objectContaining({ code: refusal });

describe('an accepted batch', () => {
  test('is in the log with its marker, its row and its job when the answer comes, and nothing of it is handled', async () => {
    const { world, executionId } = await open();
    const receipt = await world.batches.accept(world.request(executionId, [note(1), note(2)], 'k'));
    expect(receipt).toMatchObject({ eventIds: [4, 5], queueDepth: 1, duplicate: false, idempotencyKey: 'k' });
    const log = world.store.log(executionId);
    expect(log.slice(3).map((event) => event.type)).toEqual(['report.note', 'report.note', 'batch.accepted']);
    expect(log.at(-1)).toMatchObject({
      status: 'pending',
      nodeName: 'events.batch',
      result: { context: { request_id: String(receipt.requestId), event_ids: [4, 5] } },
      meta: { batch_request_id: String(receipt.requestId), idempotency_key: 'k', event_count: 2 },
    });
    expect(world.jobs.waiting).toEqual([{ requestId: receipt.requestId, executionId }]);
    expect(await world.batches.find(receipt.requestId)).toMatchObject({ state: 'accepted', eventIds: [4, 5] });
    expect(world.row(executionId)).toMatchObject({ handledThrough: 3, lastEventId: 6 });
  });

  test('lets every event take its turn, in order, and says what that took', async () => {
    const { world, executionId } = await running();
    const [a] = await world.claim();
    if (a === undefined) throw new Error('nothing to claim');
    const batch = await world.accepted(executionId, [...done(a, { n: 1 }), note(1)], 'k');
    expect(batch).toMatchObject({ state: 'completed', errorCode: null, commandsGenerated: 1 });
    expect(world.markers(executionId)).toEqual(['batch.accepted', 'batch.processing', 'batch.completed']);
    const completed = world.store.log(executionId).find((event) => event.type === 'batch.completed');
    expect(completed?.result?.context).toMatchObject({ actionable_event: true, commands_generated: 1, event_count: 5 });
    const issued = world.store.log(executionId).filter((event) => event.type === 'command.issued');
    expect(issued.at(-1)).toMatchObject({ nodeName: 'b', causeId: batch.eventIds[3] });
    const [b] = await world.claim();
    if (b === undefined) throw new Error('nothing to claim');
    await world.accepted(executionId, done(b, { n: 2 }));
    expect(world.row(executionId)).toMatchObject({ status: 'completed', result: { n: 2 } });
    checkStore(world.store);
    expect(world.observed.get('svc_batch_first_worker_claim_latency_seconds')).toHaveLength(2);
  });

  test('is handled before anything else of its execution takes a turn', async () => {
    const { world, executionId } = await open();
    const [a] = await world.claim();
    if (a === undefined) throw new Error('nothing to claim');
    await world.batches.accept(world.request(executionId, done(a)));
    expect(world.row(executionId).currentStep).toBe('a');
    await world.server.executions.recordEvent(world.eventOf(executionId, 'report.note', { step: 'a' }));
    expect(world.row(executionId).currentStep).toBe('b');
    expect(world.row(executionId).handledThrough).toBe(world.row(executionId).lastEventId);
    checkStore(world.store);
    await world.batches.start();
    await world.jobs.idle();
    expect(world.markers(executionId)).toEqual(['batch.accepted', 'batch.processing', 'batch.completed']);
    const completed = world.store.log(executionId).find((event) => event.type === 'batch.completed');
    expect(completed?.result?.context).toMatchObject({ actionable_event: true, commands_generated: 1 });
  });

  test('of an ended execution is stored as late and changes nothing', async () => {
    const { world, executionId } = await running();
    const [a] = await world.claim();
    if (a === undefined) throw new Error('nothing to claim');
    await world.server.executions.cancel(executionId, { reason: 'enough', cascade: false, by: 'api' });
    const before = world.row(executionId);
    const batch = await world.accepted(executionId, done(a));
    expect(batch).toMatchObject({ state: 'completed', commandsGenerated: 0 });
    const own = world.store.log(executionId).filter((event) => batch.eventIds.includes(event.eventId));
    // The command was closed by the cancellation, which is what its closing row repeats.
    expect(own.map((event) => [event.type, event.meta['late'] === true])).toEqual([
      ['command.cancelled', false],
      ['command.started', true],
      ['call.done', true],
      ['step.exit', true],
    ]);
    expect(world.row(executionId)).toMatchObject({ status: 'cancelled', error: before.error, endTime: before.endTime });
    checkStore(world.store);
  });

  test('may be empty, and may be as large as allowed', async () => {
    const { world, executionId } = await running();
    expect(await world.accepted(executionId, [])).toMatchObject({ state: 'completed', eventIds: [] });
    const notes = Array.from({ length: 256 }, (_, index) => note(index));
    const batch = await world.accepted(executionId, notes);
    expect(batch.eventIds).toHaveLength(256);
    expect(world.store.log(executionId).filter((event) => event.type === 'report.note')).toHaveLength(256);
    checkStore(world.store);
  });

  test('follows the rules of a single event: repeats show the first id, outrun claims are stale', async () => {
    const { world, executionId } = await running();
    const [a] = await world.claim();
    if (a === undefined) throw new Error('nothing to claim');
    const events = done(a);
    const first = await world.accepted(executionId, [...events, ...events]);
    expect(first.eventIds.slice(4)).toEqual(first.eventIds.slice(0, 4));
    const second = await world.accepted(executionId, [
      ...events,
      item('command.failed', { commandId: a.row.commandId, attempt: 1 }),
      item('command.heartbeat', { commandId: a.row.commandId }),
      item('step.enter', { step: 'a' }),
      item('call.done', { commandId: a.row.commandId, attempt: 0, payload: { result: 1 } }),
      item('report.note', { step: 'a', reportId: 'same' }),
      item('report.note', { step: 'a', reportId: 'same' }),
    ]);
    const [closing] = first.eventIds.slice(3);
    expect(second.eventIds.slice(0, 7)).toEqual([...first.eventIds.slice(0, 4), closing, 3, 2]);
    const stale = world.store.log(executionId).find((event) => event.eventId === second.eventIds[7]);
    expect(stale).toMatchObject({ type: 'call.done', stale: true });
    expect(second.eventIds[8]).toBe(second.eventIds[9]);
    checkStore(world.store);
  });

  test('counts only what its own events brought about, once', async () => {
    const { world, executionId } = await running();
    const [a] = await world.claim();
    if (a === undefined) throw new Error('nothing to claim');
    const enter = item('step.enter', { commandId: a.row.commandId });
    const first = await world.accepted(executionId, [enter, ...done(a), ...done(a)]);
    expect(first).toMatchObject({ commandsGenerated: 1, timings: { actionable_event: true, commands_generated: 1 } });
    expect(first.eventIds[0]).toBe(2);
    const second = await world.accepted(executionId, [enter, ...done(a)]);
    expect(second).toMatchObject({ commandsGenerated: 0, timings: { actionable_event: false, commands_generated: 0 } });
    checkStore(world.store);
  });

  test('of a claim that was outrun and whose run has ended since it was looked at are stale', async () => {
    const { world, executionId } = await running();
    const [a] = await world.claim();
    if (a === undefined) throw new Error('nothing to claim');
    const { batches } = world.store;
    const read = batches.filedBefore;
    batches.filedBefore = async (...asked) => {
      batches.filedBefore = read;
      const before = await read(...asked);
      world.register('alice', { status: 'offline' });
      await world.server.commands.claim(a.row.commandId, 'bob', null);
      await world.server.executions.cancel(executionId, { reason: 'enough', cascade: true, by: 'api' });
      return before;
    };
    const { eventIds } = await world.accepted(executionId, done(a));
    const filed = world.store.log(executionId).filter((event) => eventIds.includes(event.eventId));
    expect(filed.map((event) => [event.type, event.attempt, event.stale])).toEqual([
      ['command.started', 1, true],
      ['call.done', 1, true],
      ['step.exit', 1, true],
      ['command.completed', 1, true],
    ]);
    checkStore(world.store);
  });

  test.each(permutations([0, 1, 2, 3]).map((order) => [order.join('')]))(
    'BI-12 in order %s of its events never leaves the run stuck',
    async (text) => {
      const { world, executionId } = await running();
      const [a] = await world.claim();
      if (a === undefined) throw new Error('nothing to claim');
      const events = done(a);
      await world.accepted(
        executionId,
        [...text].flatMap((index) => events[Number(index)] ?? []),
      );
      expect(world.row(executionId).currentStep).toBe('b');
      checkStore(world.store);
    },
  );

  test("BI-12 the next step's events before this step's leave the run where the order leaves it", async () => {
    const { world, executionId } = await running();
    const [a] = await world.claim();
    if (a === undefined) throw new Error('nothing to claim');
    // Nobody can have a command of a step that was not entered: it is refused, and nothing is stored.
    const early = world.request(executionId, [item('call.done', { commandId: a.row.commandId + 1, attempt: 1 })]);
    await expect(world.batches.accept(early)).rejects.toEqual(code('validation_error'));
    await world.accepted(executionId, done(a));
    const [b] = await world.claim();
    if (b === undefined) throw new Error('nothing to claim');
    await world.accepted(executionId, [...done(b), ...done(a)]);
    expect(world.row(executionId).status).toBe('completed');
    checkStore(world.store);
  });

  test('may report the end of the run; what comes after it finds the run ended', async () => {
    const { world, executionId } = await running();
    const batch = await world.accepted(executionId, [
      item('playbook.completed', { step: 'a', payload: { result: { n: 1 } } }),
      item('playbook.failed', { step: 'a', payload: { error: 'too late' } }),
    ]);
    expect(batch.state).toBe('completed');
    expect(world.row(executionId)).toMatchObject({ status: 'completed', result: { n: 1 } });
    expect(world.types(executionId).filter((type) => /^(workflow|playbook)\./.test(type))).toEqual([
      'workflow.completed workflow',
      'playbook.completed demo/two',
    ]);
  });
});

describe('a key', () => {
  test('used by sixteen at once makes one batch', async () => {
    const { world, executionId } = await running();
    const request = world.request(executionId, [note(1)], 'k');
    const receipts = await Promise.all(Array.from({ length: 16 }, () => world.batches.accept(request)));
    expect(new Set(receipts.map((receipt) => receipt.requestId)).size).toBe(1);
    expect(receipts.filter((receipt) => receipt.duplicate)).toHaveLength(15);
    expect(new Set(receipts.map((receipt) => receipt.eventIds.join())).size).toBe(1);
    await world.jobs.idle();
    expect(world.markers(executionId)).toEqual(['batch.accepted', 'batch.processing', 'batch.completed']);
  });

  test('used by two processes at once makes one batch', async () => {
    const { world, executionId } = await open();
    const other = createBatchesOfAnother(world);
    const request = world.request(executionId, [note(1)], 'k');
    const receipts = await Promise.all([world.batches.accept(request), other.accept(request)]);
    expect(receipts[0]?.requestId).toBe(receipts[1]?.requestId);
    expect(receipts.map((receipt) => receipt.duplicate).sort()).toEqual([false, true]);
    expect(world.markers(executionId)).toEqual(['batch.accepted']);
    checkStore(world.store);
  });

  test('with another body is refused and writes nothing', async () => {
    const { world, executionId } = await running();
    await world.accepted(executionId, [note(1)], 'k');
    const rows = world.store.log(executionId).length;
    await expect(world.batches.accept(world.request(executionId, [note(2)], 'k'))).rejects.toEqual(
      code('idempotency_conflict'),
    );
    expect(world.store.log(executionId)).toHaveLength(rows);
  });

  test('of a failed batch queues it again without a second copy of its events', async () => {
    const { world, executionId } = await open();
    const [a] = await world.claim();
    if (a === undefined) throw new Error('nothing to claim');
    const request = world.request(executionId, [note(1)], 'k');
    const { requestId } = await world.batches.accept(request);
    const batch = await world.batches.find(requestId);
    if (batch === null) throw new Error('no batch');
    for (const [from, state] of [
      ['accepted', 'processing'],
      ['processing', 'failed'],
    ] as const) {
      const failure = state === 'failed' ? { errorCode: 'processing_error', message: 'x' } : {};
      await world.server.flusher.submit({
        executionId,
        inbox: 'leave',
        apply: (actor) =>
          actor.moveBatch({
            ...{ ...batch, deadlineAt: batch.createdAt, ...failure, from, state },
            fromDeadlineAt: from === 'accepted' ? null : batch.createdAt,
          }),
      });
    }
    const rows = world.store.log(executionId).length;
    expect(await world.batches.accept(request)).toMatchObject({ requestId, duplicate: true });
    expect(await world.batches.find(requestId)).toMatchObject({ state: 'accepted', errorCode: null });
    expect(world.store.log(executionId)).toHaveLength(rows);
    await world.batches.start();
    expect(await world.ended(requestId)).toMatchObject({ state: 'completed' });
  });
});

describe('a lost answer', () => {
  test('before the commit stores nothing; the repeat is the first use', async () => {
    const { world, executionId } = await running();
    const request = world.request(executionId, [note(1)], 'k');
    world.store.hooks.beforeCommit = () => {
      delete world.store.hooks.beforeCommit;
      throw new UnavailableError();
    };
    await expect(world.batches.accept(request)).rejects.toBeInstanceOf(UnavailableError);
    expect(world.markers(executionId)).toEqual([]);
    expect(await world.batches.accept(request)).toMatchObject({ duplicate: false });
  });

  test('after the commit is found by its key, and handled once', async () => {
    const { world, executionId } = await running();
    const request = world.request(executionId, [note(1)], 'k');
    world.store.hooks.afterCommit = () => {
      delete world.store.hooks.afterCommit;
      throw new UnavailableError();
    };
    await expect(world.batches.accept(request)).rejects.toBeInstanceOf(UnavailableError);
    const receipt = await world.batches.accept(request);
    expect(receipt.duplicate).toBe(true);
    expect(await world.ended(receipt.requestId)).toMatchObject({ state: 'completed' });
    expect(world.markers(executionId)).toEqual(['batch.accepted', 'batch.processing', 'batch.completed']);
    checkStore(world.store);
  });

  for (const lost of [1, 2, 3])
    for (const hook of ['beforeCommit', 'afterCommit'] as const)
      test(`of write ${lost} of the processing (${hook}) is healed by the job that comes again`, async () => {
        const { world, executionId } = await open();
        const [a] = await world.claim();
        if (a === undefined) throw new Error('nothing to claim');
        const { requestId } = await world.batches.accept(world.request(executionId, done(a)));
        let writes = 0;
        world.store.hooks[hook] = () => {
          writes += 1;
          if (writes === lost) throw new UnavailableError();
        };
        await world.batches.start();
        expect(await world.ended(requestId)).toMatchObject({ state: 'completed', commandsGenerated: 1 });
        expect(world.markers(executionId)).toEqual(['batch.accepted', 'batch.processing', 'batch.completed']);
        checkStore(world.store);
      });
});

describe('a process that dies', () => {
  test('between accepting and processing leaves a batch that the next one completes', async () => {
    const { world, executionId } = await open();
    const [a] = await world.claim();
    if (a === undefined) throw new Error('nothing to claim');
    const { requestId } = await world.batches.accept(world.request(executionId, done(a)));
    await world.restart().start();
    expect(await world.ended(requestId)).toMatchObject({ state: 'completed', commandsGenerated: 1 });
    checkStore(world.store);
  });

  test('with its job lost leaves a batch that is found by its row', async () => {
    const { world, executionId } = await open();
    const { requestId } = await world.batches.accept(world.request(executionId, [note(1)]));
    world.restart();
    (world.jobs.waiting as { length: number }).length = 0;
    world.clock.advance(31_000);
    expect(await world.batches.heal()).toBe(1);
    expect(world.jobs.waiting).toHaveLength(1);
    await world.batches.start();
    expect(await world.ended(requestId)).toMatchObject({ state: 'completed' });
    expect(world.markers(executionId)).toEqual(['batch.accepted', 'batch.processing', 'batch.completed']);
  });
});

describe('a batch that cannot be handled', () => {
  test('fails with processing_error and loses nothing; the run ends as a defect', async () => {
    const { world, executionId } = await running();
    const [a] = await world.claim();
    if (a === undefined) throw new Error('nothing to claim');
    world.store.hooks.beforeCommit = (flush) => {
      if (flush.events.some((event) => event.type === 'step.enter')) throw new Error('poisoned');
    };
    const batch = await world.accepted(executionId, done(a));
    expect(batch).toMatchObject({ state: 'failed', errorCode: 'processing_error' });
    expect(world.markers(executionId)).toEqual(['batch.accepted', 'batch.processing', 'batch.failed']);
    expect(batch.eventIds.map((id) => world.store.log(executionId)[id - 1]?.type)).toEqual(
      done(a).map((event) => event.type),
    );
    await world.server.flusher.submit({ executionId, inbox: 'leave', apply: () => {} });
    expect(world.row(executionId)).toMatchObject({ status: 'failed' });
    expect(world.counts.get('svc_batch_processing_error_total')).toBe(1);
  });

  test('BI-07 fails with processing_timeout when its time is over, and writes nothing late', async () => {
    const { world, executionId } = await open();
    const batches = world.serve({ processingTimeoutSeconds: 0.02 });
    world.batches = batches;
    const release = Promise.withResolvers<void>();
    let commits = 0;
    world.store.hooks.beforeCommit = async (flush) => {
      // The second write of the processing waits behind another flush of the execution.
      if (flush.events.some((event) => event.type === 'report.slow')) await release.promise;
      commits += 1;
    };
    const { requestId } = await batches.accept(world.request(executionId, [note(1)]));
    const processing = Promise.withResolvers<void>();
    const unfollow = batches.follow(requestId, (row) => {
      if (typeof row === 'object' && row.state === 'processing') processing.resolve();
    });
    world.store.hooks.afterCommit = (flush) => {
      if (!flush.events.some((event) => event.type === 'batch.processing')) return;
      delete world.store.hooks.afterCommit;
      void world.server.flusher.submit({
        executionId,
        inbox: 'leave',
        apply: (actor) => actor.append({ type: 'report.slow', status: 'completed', nodeName: 'a' }),
      });
      setTimeout(() => release.resolve(), 40);
    };
    await batches.start();
    await processing.promise;
    unfollow();
    expect(await world.ended(requestId)).toMatchObject({ state: 'failed', errorCode: 'processing_timeout' });
    expect(commits).toBeGreaterThan(2);
    expect(world.row(executionId).handledThrough).toBe(3);
    expect(world.counts.get('svc_batch_processing_timeout_total')).toBe(1);
    await world.server.executions.recordEvent(world.eventOf(executionId, 'report.note', { step: 'a' }));
    expect(world.row(executionId).handledThrough).toBe(world.row(executionId).lastEventId);
    checkStore(world.store);
  });
});

describe('the intake refuses', () => {
  test('an unknown execution, commands of others and types of the server, and stores nothing', async () => {
    const { world, executionId } = await open();
    await expect(world.batches.accept(world.request(4_242, [note(1)]))).rejects.toEqual(code('not_found'));
    const other = await world.start('demo/two');
    const [theirs] = world.commandsOf(other.executionId);
    const [ours] = world.commandsOf(executionId);
    const request = world.request(executionId, [
      note(1),
      item('call.done', { commandId: theirs?.commandId ?? 0 }),
      item('command.issued', { step: 'a' }),
      item('report.note'),
      item('call.done', { commandId: ours?.commandId ?? 0, attempt: 1 }),
    ]);
    const rows = world.store.log(executionId).length;
    await expect(world.batches.accept(request)).rejects.toMatchObject({
      code: 'validation_error',
      data: {
        errors: [
          expect.stringContaining('body.events[1].command_id'),
          expect.stringContaining('body.events[2].event_type'),
          expect.stringContaining('body.events[3].step'),
          expect.stringContaining('body.events[4].attempt'),
        ],
      },
    });
    expect(world.store.log(executionId)).toHaveLength(rows);
  });

  test('when it is draining, and takes batches again afterwards', async () => {
    const { world, executionId } = await open();
    world.batches.drain(true);
    await expect(world.batches.accept(world.request(executionId, []))).rejects.toEqual(code('queue_unavailable'));
    world.batches.drain(false);
    expect(await world.batches.accept(world.request(executionId, []))).toMatchObject({ duplicate: false });
    expect(world.counts.get('svc_batch_queue_unavailable_total')).toBe(1);
  });

  test('when the queue is down', async () => {
    const { world, executionId } = await open();
    world.jobs = { ...world.jobs, state: () => 'down' };
    await expect(world.serve().accept(world.request(executionId, []))).rejects.toEqual(code('queue_unavailable'));
  });

  test('when the mailbox of the execution is full', async () => {
    const { world, executionId } = await open();
    const release = Promise.withResolvers<void>();
    world.store.hooks.beforeCommit = () => release.promise;
    const full = Array.from({ length: 65 }, () =>
      world.server.executions.recordEvent(world.eventOf(executionId, 'report.note', { step: 'a' })).catch(() => null),
    );
    await expect(world.batches.accept(world.request(executionId, []))).rejects.toEqual(code('queue_unavailable'));
    release.resolve();
    await Promise.all(full);
  });

  test('when no process handles batches, until one says it does', async () => {
    const { world, executionId } = await open();
    const only = world.serve({ workers: 0 }, 'srv-0');
    await expect(only.accept(world.request(executionId, []))).rejects.toEqual(code('worker_unavailable'));
    expect(world.counts.get('svc_batch_worker_unavailable_total')).toBe(1);
    await world.batches.start();
    const another = world.serve({ workers: 0 }, 'srv-0');
    const { requestId } = await another.accept(world.request(executionId, [note(1)]));
    expect(await world.ended(requestId)).toMatchObject({ state: 'completed' });
  });

  test('with ack_timeout while the queue stays full, and accepts as soon as there is room', async () => {
    const { world, executionId } = await open();
    const tight = world.serve({ queueMax: 1, enqueueTimeoutSeconds: 0.02 });
    const { requestId } = await tight.accept(world.request(executionId, []));
    await expect(tight.accept(world.request(executionId, [], 'k'))).rejects.toEqual(code('ack_timeout'));
    expect(world.counts.get('svc_batch_ack_timeout_total')).toBe(1);
    expect(world.markers(executionId)).toEqual(['batch.accepted']);
    const patient = world.serve({ queueMax: 1, enqueueTimeoutSeconds: 5 });
    world.batches = patient;
    const waiting = patient.accept(world.request(executionId, [], 'k'));
    await patient.start();
    expect(await waiting).toMatchObject({ duplicate: false });
    expect((await world.ended(requestId)).state).toBe('completed');
  });

  test('with ack_timeout when the write is slow; the write goes on and the repeat finds it', async () => {
    const { world, executionId } = await open();
    const hasty = world.serve({ enqueueTimeoutSeconds: 0.02 });
    const release = Promise.withResolvers<void>();
    world.store.hooks.beforeCommit = () => release.promise;
    const request = world.request(executionId, [note(1)], 'k');
    const refusal = await hasty.accept(request).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: 'ack_timeout', data: { request_id: expect.any(String) } });
    await expect(hasty.accept(request)).rejects.toMatchObject({
      code: 'ack_timeout',
      data: (refusal as { data: object }).data,
    });
    release.resolve();
    const receipt = await world.serve().accept(request);
    expect(receipt.duplicate).toBe(true);
    expect(String(receipt.requestId)).toBe((refusal as { data: { request_id: string } }).data.request_id);
    expect(world.markers(executionId)).toEqual(['batch.accepted']);
  });
});

describe('those who follow', () => {
  test('see the present state first, each new one once, and never go back', async () => {
    const { world, executionId } = await open();
    const { requestId } = await world.batches.accept(world.request(executionId, [note(1)]));
    const states: string[] = [];
    const late: string[] = [];
    const end = Promise.withResolvers<void>();
    const unfollow = world.batches.follow(requestId, (row) => {
      states.push(typeof row === 'string' ? row : row.state);
      if (typeof row === 'object' && row.state === 'accepted') void world.batches.start();
      if (typeof row === 'object' && row.state === 'completed') end.resolve();
    });
    await end.promise;
    unfollow();
    const order = ['accepted', 'processing', 'completed'];
    expect(states).toEqual(order.filter((state) => states.includes(state)));
    const again = Promise.withResolvers<void>();
    world.batches.follow(requestId, (row) => {
      late.push(typeof row === 'string' ? row : row.state);
      again.resolve();
    });
    await again.promise;
    expect(late).toEqual(['completed']);
    await world.batches.stop();
  });

  test('hear that a batch is unknown, and that the store does not answer', async () => {
    const { world } = await open();
    const answers = Promise.withResolvers<unknown>();
    world.batches.follow(4_242, answers.resolve)();
    const unknown = Promise.withResolvers<unknown>();
    const unfollow = world.batches.follow(4_243, unknown.resolve);
    expect(await unknown.promise).toBe('unknown');
    unfollow();
    const broken = createBatches(
      {
        ...{ store: world.store, jobs: world.jobs, flusher: world.server.flusher, ids: world.ids, clock: world.clock },
        batches: { ...world.store.batches, find: () => Promise.reject(new UnavailableError()) },
        bus: world.exchange.connect(),
        log: { debug() {}, info() {}, warn() {}, error() {} },
        meter: { count() {}, observe() {}, gauge() {} },
        holder: 'x',
        seen() {},
      },
      { enqueueTimeoutSeconds: 1, queueMax: 1, workers: 0, processingTimeoutSeconds: 1, pollSeconds: 1 },
    );
    const error = Promise.withResolvers<unknown>();
    const leave = broken.follow(1, error.resolve);
    expect(await error.promise).toBe('error');
    leave();
  });
});

/** The batches of a second process: its actors know nothing of the first one's. */
function createBatchesOfAnother(world: BatchWorld) {
  const first = world.server;
  world.server = world.another();
  const batches = world.serve({}, 'srv-2');
  world.server = first;
  return batches;
}
