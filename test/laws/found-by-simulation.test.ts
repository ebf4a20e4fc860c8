/** What the simulator found, each as the smallest world that showed it. */
import { describe, expect, test } from 'vitest';
import { Leases } from '../../actors/lease.ts';
import { createMemoryLeases } from '../../actors/memory/memory-leases.ts';
import { Reaper } from '../../actors/reaper.ts';
import { endCancelled } from '../../actors/record-event.ts';
import { handleReport } from '../../actors/report.ts';
import type { GrantedCommand } from '../../actors/services.ts';
import { BatchWorld } from '../actors/batch-world.ts';
import { checkStore } from '../support/invariants.ts';
import { step } from '../support/playbooks.ts';
import { World } from '../support/world.ts';

const ONE = { one: [step('a')] };

async function firstOf(commands: Promise<readonly GrantedCommand[]>): Promise<GrantedCommand> {
  const [command] = await commands;
  if (command === undefined) throw new Error('nothing was granted');
  return command;
}

function turns(count = 20): Promise<void> {
  return new Promise((resolve) => {
    const again = (left: number): void => void (left === 0 ? resolve() : setImmediate(() => again(left - 1)));
    again(count);
  });
}

describe('found by the simulator', () => {
  test('claims that wait for a busy execution let the process go on', async () => {
    const world = new World({ one: [step('a', { loop: { in: 6, iterator: 'i', spec: { mode: 'parallel' } } })] });
    await world.start('one');
    let commit: () => void = () => {};
    const held = new Promise<void>((resolve) => {
      commit = resolve;
    });
    const first = await firstOf(world.claim('alice', { max: 1 }));
    world.store.hooks.beforeCommit = () => held;
    const reporting = world.report(first);
    await turns();
    const ends = new AbortController();
    const waiting = ['alice', 'bob'].map((name) => world.claim(name, { max: 1, waitMs: 60_000, signal: ends.signal }));
    // A process that spins never gets here.
    await turns();
    world.store.hooks.beforeCommit = () => {};
    commit();
    expect((await reporting).result).toBe('accepted');
    expect((await Promise.all(waiting)).flat()).toHaveLength(2);
    ends.abort();
    checkStore(world.store);
  });

  test('the end of a child reaches a parent that is live elsewhere, parked by another server', async () => {
    const world = new World({ parent: [step('w', { tool: { kind: 'playbook', path: 'one', wait: true } })], ...ONE });
    const other = world.another();
    const top = (await world.start('parent')).executionId;
    const command = await firstOf(world.claim('alice'));
    const child = await other.executions.start({
      ...{ path: 'one', workload: {}, parentExecutionId: top, parentCommandId: command.row.commandId },
    });
    // The other server knows the parent as it was before it was parked.
    await other.supervisor.actor(top);
    await world.report(command, { outcome: 'parked', childExecutionId: child.executionId });
    const work = await firstOf(world.claim('bob', {}, other));
    await world.exchangeWith('bob', [world.reportOf(work)], null, other);
    await turns();
    await other.recovery.settleParked();
    expect(world.row(top).status).toBe('completed');
  });

  test('a command that the same flush issued and cancelled is not given out', async () => {
    const world = new World({ one: [step('a', { next: { spec: {}, arcs: [{ step: 'b' }] } }), step('b')] });
    const { executionId } = await world.start('one');
    const command = await firstOf(world.claim('alice'));
    const report = world.reportOf(command);
    const { outcome } = report;
    if (outcome === null) throw new Error('the report has no outcome');
    const claimant = {
      ...{ workerId: 'alice', pools: ['shared'], toolKinds: null, claimId: null, max: 1, room: 1, granted: [] },
      ...{ onGranted: () => {}, isClosed: false },
    };
    const { flusher } = world.server;
    await Promise.all([
      flusher.submit({ executionId, claimant, apply: (actor) => handleReport(actor, report, outcome, 'alice') }),
      flusher.submit({
        executionId,
        apply: (actor) => endCancelled(actor, { reason: 'enough', by: 'api', extra: {} }),
      }),
    ]);
    expect(world.command(executionId, 'b@1')).toMatchObject({ status: 'CANCELLED', attempt: 0 });
    expect(claimant.granted).toEqual([]);
    expect(world.types(executionId)).not.toContain('command.claimed b');
    checkStore(world.store);
  });

  test('a batch move that is refused leaves a report of the same execution alone', async () => {
    const world = new BatchWorld({ one: [step('a'), step('b')] });
    const { executionId } = await world.start('one');
    const move = { requestId: 1, executionId, state: 'completed', from: 'processing', errorCode: null } as const;
    const rest = { message: null, commandsGenerated: 0, deadlineAt: null, queueWaitMs: null, timings: null };
    const command = await firstOf(world.claim('alice'));
    const refused = world.server.flusher.submit({
      executionId,
      apply: (actor) => actor.moveBatch({ ...move, ...rest }),
    });
    const [ended, receipt] = await Promise.allSettled([refused, world.report(command)]);
    expect(ended.status).toBe('rejected');
    expect(receipt).toMatchObject({ status: 'fulfilled', value: { result: 'accepted' } });
  });

  test('an end by hand behind filed events ends the run', async () => {
    const world = new BatchWorld(ONE);
    const { executionId } = await world.start('one');
    const command = await firstOf(world.claim('alice'));
    const { commandId, attempt } = command.row;
    await world.batches.start();
    const filed = world.store.log(executionId).length;
    const of = { commandId, attempt, workerId: 'alice' };
    await world.server.flusher.submit({
      executionId,
      inbox: 'leave',
      apply: (actor) => {
        const base = { status: 'completed', nodeName: 'a', nodeType: 'noop', ...of } as const;
        actor.file({ ...base, type: 'call.done', result: { status: 'completed', context: { data: 1 } } });
        actor.file({ ...base, type: 'command.completed', closes: true });
      },
    });
    const last = world.store.log(executionId).at(-1);
    if (last === undefined) throw new Error('the log is empty');
    const eventId = filed + 3;
    world.store.appendByHand({
      ...{ ...last, eventId, causeId: eventId, type: 'execution.cancelled', status: 'cancelled', closes: false },
      ...{ commandId: null, attempt: null, workerId: null, reportId: null, reportSeq: null, result: null, meta: {} },
      context: { reason: 'by hand' },
    });
    await world.server.recovery.drain(executionId);
    expect(world.row(executionId).status).toBe('cancelled');
    expect(world.command(executionId, 'a@1').status).toBe('COMPLETED');
    checkStore(world.store);
  });

  test('used-up attempts leave an outcome that was recorded as it is', async () => {
    const world = new World(ONE, { commandMaxAttempts: 1 });
    const { executionId } = await world.start('one');
    const { row } = await firstOf(world.claim('alice'));
    const said = { commandId: row.commandId, attempt: row.attempt, workerId: 'alice' };
    await world.server.executions.recordEvent(
      world.eventOf(executionId, 'call.done', { ...said, payload: { result: 1 } }),
    );
    world.clock.advance(600_000);
    await world.sweep();
    await world.claim('bob');
    const calls = world.store.log(executionId).filter((event) => event.type.startsWith('call.'));
    expect(calls.map((event) => event.type)).toEqual(['call.done']);
    expect(world.row(executionId).status).toBe('completed');
    checkStore(world.store);
  });

  test('a loop that is entered again goes on after a reload in its second round', async () => {
    const world = new World({
      one: [
        step('a', {
          loop: { in: 2, iterator: 'i', spec: { mode: 'sequential' } },
          next: { spec: {}, arcs: [{ step: 'b' }] },
        }),
        step('b', {
          next: { spec: {}, arcs: [{ step: 'a', when: '(ctx.n or 0) < 2' }] },
          set: { 'ctx.n': '{{ (ctx.n or 0) + 1 }}' },
        }),
      ],
    });
    const { executionId } = await world.start('one');
    for (let count = 0; count < 9 && world.row(executionId).status === 'running'; count += 1) {
      const isBetween = world
        .commandsOf(executionId)
        .some((row) => row.commandKey === 'b@1' && row.status === 'PENDING');
      const actor = await world.server.supervisor.actor(executionId);
      // Its snapshot knows the end of the first round; the second one is in the rows after it.
      if (actor !== null && isBetween) actor.turnsSinceSnapshot = 64;
      await world.report(await firstOf(world.claim('alice', { max: 1 })));
      world.crash();
    }
    expect(world.row(executionId).status).toBe('completed');
    checkStore(world.store);
  });

  test('a sweep that is asked of a stopping server is refused as that', async () => {
    const world = new World(ONE);
    const silent = { debug() {}, info() {}, warn() {}, error() {} };
    const meter = { count() {}, observe() {}, gauge() {} };
    const leases = new Leases({
      ...{ store: createMemoryLeases(world.clock), clock: world.clock, log: silent, meter, holder: 'srv-1' },
      ...{ card: { uri: null, version: '0', pid: 1, hostname: 'h' }, leaseSeconds: 5 },
    });
    const reaper = new Reaper({
      ...{ leases, clock: world.clock, log: silent, meter, announce: () => {}, askHolder: () => {} },
      store: { page: async () => 0 },
      settings: {
        ...{ enabled: true, intervalSeconds: 60, maxPerRun: 10 },
        ...{ pendingRetrySeconds: 60, workerStaleSeconds: 60, hardTimeoutSeconds: 1_800 },
      },
    });
    await leases.stop();
    await expect(reaper.sweepNow()).rejects.toMatchObject({ code: 'shutting_down' });
  });
});
