/** What the simulator found, each as the smallest world that showed it. */
import { describe, expect, test } from 'vitest';
import { hintOf } from '../../actors/command-hint.ts';
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
const WAIT = step('w', { tool: { kind: 'playbook', path: 'one', wait: true } });

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
    const rest = {
      ...{ message: null, commandsGenerated: 0, deadlineAt: null, fromDeadlineAt: null },
      ...{ queueWaitMs: null, timings: null },
    };
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
        const base = { status: 'completed', nodeName: 'a', nodeType: 'noop', parentEventId: 3, ...of } as const;
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
    // The end of the command is a turn of its own.
    await turns();
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

  test('a healthy worker keeps what it named to another server', async () => {
    const world = new World(ONE);
    const other = world.another();
    const { executionId } = await world.start('one');
    const { row } = await firstOf(world.claim('alice'));
    // The other server knows the claim, and hears of no heartbeat.
    await other.supervisor.actor(executionId);
    const holding = [{ commandId: row.commandId, attempt: row.attempt }];
    for (let passed = 0; passed < 2_000; passed += 100) {
      world.clock.advance(100_000);
      world.register('alice', { registeredAt: row.claimedAt ?? '' });
      expect(await world.server.commands.stopOrders('alice', holding)).toEqual([]);
    }
    const { commandId } = row;
    other.recovery.onHint([hintOf(row)]);
    expect(await world.claim('bob', {}, other)).toEqual([]);
    await expect(other.commands.claim(commandId, 'bob', null)).rejects.toMatchObject({ code: 'active_claim' });
    expect(world.command(executionId, 'a@1')).toMatchObject({ attempt: 1, workerId: 'alice' });
    world.clock.advance(1_800_000);
    world.register('alice', { registeredAt: row.claimedAt ?? '' });
    other.recovery.onHint([hintOf(row)]);
    expect((await firstOf(world.claim('bob', {}, other))).row.attempt).toBe(2);
    checkStore(world.store);
  });

  test('a repeated claim does not put off the next sign of life of what it gives again', async () => {
    const world = new World(ONE);
    await world.start('one');
    const { row } = await firstOf(world.claim('alice', { claimId: 'k' }));
    for (let again = 0; again < 3; again += 1) {
      world.clock.advance(5_000);
      await world.claim('alice', { claimId: 'k' });
      await world.server.commands.stopOrders('alice', [{ commandId: row.commandId, attempt: row.attempt }]);
      world.crash();
    }
    expect(world.command(row.executionId, 'a@1').heartbeatAt).not.toBeNull();
  });

  /** A run that failed while it waited for a child, which waits for one itself; the process died before either was ended. */
  async function abandoned(): Promise<{ world: World; top: number; child: number; below: number }> {
    const world = new World({
      parent: [
        step('s', { next: { spec: { mode: 'inclusive' }, arcs: [{ step: 'w' }, { step: 'x' }] } }),
        WAIT,
        step('x'),
      ],
      child: [WAIT],
      ...ONE,
    });
    const top = (await world.start('parent')).executionId;
    await world.report(await firstOf(world.claim()));
    const [w, x] = await world.claim();
    if (w === undefined || x === undefined) throw new Error('two commands were expected');
    const below = async (path: string, parent: GrantedCommand) => {
      const of = { parentExecutionId: parent.row.executionId, parentCommandId: parent.row.commandId };
      const { executionId } = await world.start(path, of);
      await world.report(parent, { outcome: 'parked', childExecutionId: executionId });
      return executionId;
    };
    const child = await below('child', w);
    const grandchild = await below('one', await firstOf(world.claim()));
    const dead = world.server;
    world.store.hooks.beforeCommit = (flush) =>
      flush.events.some((event) => event.type === 'execution.cancelled') ? new Promise(() => {}) : undefined;
    await world.exchangeWith('alice', [world.reportOf(x, { outcome: 'error' })], null, dead);
    world.crash();
    world.store.hooks.beforeCommit = () => {};
    expect([world.row(top).status, world.row(child).status]).toEqual(['failed', 'running']);
    return { world, top, child, below: grandchild };
  }

  test('a child that a crash kept from being ended with the wait for it is ended by the next start', async () => {
    const { world, top, child, below } = await abandoned();
    await world.server.recovery.start();
    world.server.recovery.stop();
    expect([world.row(child).status, world.row(below).status]).toEqual(['cancelled', 'cancelled']);
    const end = world.store.log(child).find((event) => event.type === 'execution.cancelled');
    expect(end?.context).toMatchObject({ cancelled_by: 'cascade', cascade_from: top });
    checkStore(world.store);
  });

  test('reconciliation ends what a crash left of a subtree, and leaves what is under way', async () => {
    const { world, child, below } = await abandoned();
    expect(await world.server.executions.endAbandoned(5)).toBe(0);
    world.clock.advance(6_000);
    world.store.hooks.beforeCommit = (flush) =>
      flush.events.some((event) => event.executionId === below) ? new Promise(() => {}) : undefined;
    void world.server.executions.endAbandoned(5);
    await turns();
    expect([world.row(child).status, world.row(below).status]).toEqual(['cancelled', 'running']);
    world.crash();
    world.store.hooks.beforeCommit = () => {};
    world.clock.advance(6_000);
    expect(await world.server.executions.endAbandoned(5)).toBe(1);
    expect(world.row(below).status).toBe('cancelled');
    expect(await world.server.executions.endAbandoned(0)).toBe(0);
    checkStore(world.store);
  });

  test('a crash does not keep a child that began to be waited for when its run was failing', async () => {
    const steps = [
      step('s', { next: { spec: { mode: 'inclusive' }, arcs: [{ step: 'w' }, { step: 'x' }, { step: 'y' }] } }),
      WAIT,
      step('x'),
      step('y'),
    ];
    for (const isLast of [true, false]) {
      const world = new World({ parent: steps, ...ONE });
      const top = (await world.start('parent')).executionId;
      await world.report(await firstOf(world.claim()));
      const [w, x, y] = await world.claim();
      if (w === undefined || x === undefined || y === undefined) throw new Error('three commands were expected');
      const child = (await world.start('one', { parentExecutionId: top, parentCommandId: w.row.commandId }))
        .executionId;
      await world.report(x, { outcome: 'error' });
      if (isLast) await world.report(y);
      const dead = world.server;
      world.store.hooks.beforeCommit = (flush) =>
        flush.events.some((event) => event.type === 'execution.cancelled') ? new Promise(() => {}) : undefined;
      await world.exchangeWith(
        'alice',
        [world.reportOf(w, { outcome: 'parked', childExecutionId: child })],
        null,
        dead,
      );
      world.crash();
      world.store.hooks.beforeCommit = () => {};
      expect([world.row(top).status, world.row(child).status]).toEqual([isLast ? 'failed' : 'running', 'running']);
      await world.server.recovery.start();
      world.server.recovery.stop();
      expect(world.row(child).status).toBe('cancelled');
      checkStore(world.store);
    }
  });

  test('children that nobody promised to end go on', async () => {
    const world = new World({ parent: [WAIT], ...ONE });
    const start = async (waits: boolean) => {
      const top = (await world.start('parent')).executionId;
      const command = await firstOf(world.claim('alice', { max: 1, toolKinds: ['playbook'] }));
      const of = { parentExecutionId: top, parentCommandId: command.row.commandId };
      const { executionId } = await world.start('one', of);
      if (waits) await world.report(command, { outcome: 'parked', childExecutionId: executionId });
      else await world.report(command, { outcome: 'error' });
      return { top, child: executionId };
    };
    const left = await start(true);
    await world.server.executions.cancel(left.top, { reason: 'enough', cascade: false, by: 'api' });
    const ended = await start(true);
    const why = { status: 'failed', reason: 'enough', error: null } as const;
    await world.server.executions.finalize(ended.top, why);
    const started = await start(false);
    expect(world.row(started.top).status).toBe('failed');
    world.clock.advance(60_000);
    expect(await world.server.executions.endAbandoned(0)).toBe(0);
    expect([left, ended, started].map(({ child }) => world.row(child).status)).toEqual(Array(3).fill('running'));
  });

  test('attempts that are used up end the command also when its turn needs a stored result', async () => {
    const world = new World(
      {
        big: [
          step('a', { next: { spec: {}, arcs: [{ step: 'b' }] } }),
          step('b', {
            next: {
              spec: {},
              arcs: [{ step: 'c', when: "{{ event.name == 'call.error' and a.rows[2999].id == 2999 }}" }],
            },
          }),
          step('c'),
        ],
      },
      { commandMaxAttempts: 1 },
    );
    const { executionId } = await world.start('big');
    const rows = Array.from({ length: 3_000 }, (_, n) => ({ id: n, text: 'some text' }));
    await world.report(await firstOf(world.claim()), { data: { rows } });
    await firstOf(world.claim());
    world.clock.advance(600_000);
    world.crash();
    await world.sweep();
    const found = await world.claim('bob', { waitMs: 1_000 });
    expect(found.map(({ row }) => row.stepName)).toEqual(['c']);
    expect(world.command(executionId, 'b@1')).toMatchObject({ status: 'FAILED', attempt: 1 });
    expect(world.counts.get('svc_flush_retries_total') ?? 0).toBe(0);
    checkStore(world.store);
  });

  test('nothing is granted of an execution whose turn was left half done for a stored result', async () => {
    const world = new World({
      wide: [
        step('a', { next: { spec: { mode: 'inclusive' }, arcs: [{ step: 'b' }, { step: 'd' }] } }),
        step('b', { next: { spec: {}, arcs: [{ step: 'c', when: '{{ a.rows[2999].id == 2999 }}' }] } }),
        step('c'),
        step('d'),
      ],
    });
    const { executionId } = await world.start('wide');
    const rows = Array.from({ length: 3_000 }, (_, n) => ({ id: n, text: 'some text' }));
    await world.report(await firstOf(world.claim()), { data: { rows } });
    const b = await firstOf(world.claim('alice', { max: 1 }));
    world.crash();
    await world.sweep();
    // Both in one flush: the report, whose turn has to fetch the result of `a` first, and the claim of `d`.
    const [, claimed] = await Promise.all([world.report(b), world.claim('bob', { waitMs: 1_000 })]);
    expect(b.row.stepName).toBe('b');
    expect(claimed.map(({ row }) => row.stepName).sort()).toContain('d');
    const called = world.store
      .log(executionId)
      .filter(({ type, commandId }) => type === 'call.done' && commandId === b.row.commandId);
    expect(called).toHaveLength(1);
    expect(world.command(executionId, 'b@1')).toMatchObject({ status: 'COMPLETED' });
    expect(world.command(executionId, 'c@1')).toBeDefined();
    checkStore(world.store);
  });

  test('an iteration that was closed without a call keeps its outcome over a reload', async () => {
    const playbook = {
      one: [step('a', { loop: { in: 3, iterator: 'i', spec: { mode: 'sequential', failure_mode: 'best_effort' } } })],
    };
    const values: unknown[] = [];
    for (const reloads of [false, true]) {
      const world = new World(playbook);
      const { executionId } = await world.start('one');
      for (const payload of [{ result: 1 }, { error: { kind: 'x', message: 'no' } }, {}]) {
        const { row } = await firstOf(world.claim());
        const of = { commandId: row.commandId, attempt: row.attempt, workerId: 'alice', payload };
        const type = 'error' in payload ? 'command.failed' : 'command.completed';
        const actor = await world.server.supervisor.actor(executionId);
        if (actor !== null) actor.turnsSinceSnapshot = 64;
        await world.server.executions.recordEvent(world.eventOf(executionId, type, of));
        if (reloads) world.crash();
      }
      values.push(world.store.log(executionId).find((event) => event.type === 'loop.done')?.result);
    }
    expect(values[1]).toEqual(values[0]);
    expect(values[0]).toMatchObject({ context: { data: { results: [1, null, null], errors: [{ message: 'no' }] } } });
  });
});
