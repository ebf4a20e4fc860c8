import { beforeEach, describe, expect, test, vi } from 'vitest';
import { type Claimant, CommandBoard } from '../../actors/board.ts';
import { type Bus, type CommandHint, type Store, UnavailableError } from '../../actors/ports.ts';
import type { GrantedCommand } from '../../actors/services.ts';
import { checkStore } from '../support/invariants.ts';
import { first, step } from '../support/playbooks.ts';
import { World } from '../support/world.ts';

const loop = (n: number) => [step('each', { loop: { in: n, iterator: 'i', spec: { mode: 'parallel' } } })];

describe('a claim by id', () => {
  let world: World;
  let id: number;
  let commandId: number;

  beforeEach(async () => {
    world = new World({ one: [step('a')] });
    id = (await world.start('one')).executionId;
    commandId = world.command(id, 'a@1').commandId;
  });

  const claim = (worker: string) => world.server.commands.claim(commandId, worker, null);

  test('gives the command with its fencing token', async () => {
    const granted = await claim('alice');
    expect(granted).toMatchObject({
      row: { attempt: 1, workerId: 'alice', status: 'CLAIMED' },
      toolConfig: { kind: 'noop' },
      timeoutSeconds: 21_600,
      leaseSeconds: 120,
      path: 'one',
      version: 1,
      iterationTotal: null,
    });
    expect(world.store.log(id)[3]).toMatchObject({
      type: 'command.claimed',
      attempt: 1,
      workerId: 'alice',
      parentEventId: 3,
      status: 'running',
    });
  });

  test('repeated by the holder gives the same attempt and writes nothing', async () => {
    await claim('alice');
    expect((await claim('alice')).row.attempt).toBe(1);
    expect(world.types(id)).toHaveLength(4);
  });

  test('of another worker is refused while the lease lasts, with the policy', async () => {
    await claim('alice');
    world.clock.advance(5_000);
    await expect(claim('bob')).rejects.toMatchObject({
      code: 'active_claim',
      data: {
        worker_id: 'alice',
        claim_policy: { decision: 'refuse', reason: 'lease_active', lease_age_seconds: 5, attempt: 1 },
      },
    });
  });

  test('of another worker is granted when the holder is silent, registered again or gone', async () => {
    await claim('alice');
    world.clock.advance(11_000);
    expect((await claim('bob')).row.attempt).toBe(2);
    world.clock.advance(1_000);
    world.register('bob', { instance: 'new' });
    expect((await claim('alice')).row.attempt).toBe(3);
    world.workers.delete('alice');
    world.clock.advance(121_000);
    expect((await claim('bob')).row.attempt).toBe(4);
    expect(
      world.store
        .log(id)
        .filter((event) => event.type === 'command.claimed')
        .map((event) => event.meta['reason'] ?? null),
    ).toEqual([null, 'worker_offline', 'worker_restarted', 'worker_missing']);
    checkStore(world.store);
  });

  test('of a draining worker is refused', async () => {
    world.register('carol', { status: 'draining' });
    await expect(claim('carol')).rejects.toMatchObject({ code: 'worker_draining' });
  });

  test('of a command that has ended, or that nobody knows, says so', async () => {
    await world.report(await claim('alice'));
    const policy = { decision: 'refuse', reason: 'terminal', attempt: 1 };
    await expect(claim('bob')).rejects.toMatchObject({
      code: 'already_terminal',
      data: { claim_policy: { ...policy, lease_age_seconds: null, heartbeat_age_seconds: null } },
    });
    await expect(world.server.commands.claim(5, 'bob', null)).rejects.toMatchObject({ code: 'not_found' });
    await expect(world.server.commands.get(5)).rejects.toMatchObject({ code: 'not_found' });
    expect((await world.server.commands.get(commandId)).row.status).toBe('COMPLETED');
  });

  test('beyond the last attempt fails the command and its step', async () => {
    const short = new World({ one: [step('a')] }, { commandMaxAttempts: 2 });
    const run = (await short.start('one')).executionId;
    const only = short.command(run, 'a@1').commandId;
    for (const worker of ['alice', 'bob']) {
      await short.server.commands.claim(only, worker, null);
      short.clock.advance(130_000);
    }
    await expect(short.server.commands.claim(only, 'alice', null)).rejects.toMatchObject({
      code: 'attempts_exhausted',
    });
    expect(short.row(run)).toMatchObject({
      status: 'failed',
      errorDetail: { errors: [{ kind: 'logic', code: 'ATTEMPTS_EXHAUSTED' }] },
    });
    checkStore(short.store);
  });

  test('beyond the last attempt of an iteration fails it by its own name', async () => {
    const short = new World({ all: [step('a', { loop: { in: [1], iterator: 'x' } })] }, { commandMaxAttempts: 1 });
    const run = (await short.start('all')).executionId;
    const only = short.commandsOf(run)[0]?.commandId ?? 0;
    await short.server.commands.claim(only, 'alice', null);
    short.clock.advance(130_000);
    await expect(short.server.commands.claim(only, 'bob', null)).rejects.toMatchObject({ code: 'attempts_exhausted' });
    expect(short.types(run)).toEqual(expect.arrayContaining(['call.error a#0', 'command.failed a#0']));
    checkStore(short.store);
  });

  test('at a server that is behind is judged by what is true', async () => {
    const behind = world.another();
    const two = new World({ two: [step('a', first('b')), step('b')] });
    const other = two.another();
    const run = (await two.start('two')).executionId;
    await other.supervisor.actor(run);
    await two.report((await two.claim())[0] as GrantedCommand);
    const { commandId: second } = two.command(run, 'b@1');
    expect((await other.commands.claim(second, 'bob', null)).row.attempt).toBe(1);
    expect((await behind.commands.claim(commandId, 'bob', null)).row.attempt).toBe(1);
  });

  test('at a server that remembers the holder before is judged by what is true', async () => {
    const other = world.another();
    await claim('alice');
    world.clock.advance(11_000);
    await other.commands.claim(commandId, 'bob', null);
    world.register('alice');
    await expect(claim('alice')).rejects.toMatchObject({
      code: 'active_claim',
      data: { worker_id: 'bob', claim_policy: { reason: 'lease_active', attempt: 2 } },
    });
  });

  test('of the holder is refused by a server that has not heard that the work has begun', async () => {
    const other = world.another();
    await claim('alice');
    const begun = { commandId, attempt: 1, workerId: 'alice' };
    await other.executions.recordEvent(world.eventOf(id, 'command.started', begun));
    await expect(claim('alice')).rejects.toMatchObject({
      code: 'active_claim',
      data: { claim_policy: { reason: 'lease_active' } },
    });
  });
});

describe('a claim by id of a worker that is offline', () => {
  test('is refused until it registers again, unless there is nothing left to claim', async () => {
    const world = new World({ one: [step('a')] });
    const id = (await world.start('one')).executionId;
    const { commandId } = world.command(id, 'a@1');
    world.register('alice', { status: 'offline' });
    const { commands } = world.server;
    const refusal = { code: 'unknown_worker', data: { status: 'unknown', name: 'alice' } };
    await expect(commands.claim(commandId, 'alice', null)).rejects.toMatchObject(refusal);
    expect(world.types(id)).toHaveLength(3);
    world.register('alice');
    await world.report(await commands.claim(commandId, 'alice', null));
    world.register('alice', { status: 'offline' });
    await expect(commands.claim(commandId, 'alice', null)).rejects.toMatchObject({ code: 'already_terminal' });
  });
});

describe('claiming many', () => {
  test('gives nothing when there is nothing, and no more than asked for', async () => {
    const world = new World({ ten: loop(10) });
    expect(await world.claim('alice')).toEqual([]);
    await world.start('ten');
    expect(await world.claim('alice', { max: 3 })).toHaveLength(3);
    expect(await world.claim('bob', { max: 100 })).toHaveLength(7);
    checkStore(world.store);
  });

  test('is for registered workers that are not draining', async () => {
    const world = new World({ one: [step('a')] });
    await expect(world.claim('nobody')).rejects.toMatchObject({ code: 'unknown_worker' });
    world.register('carol', { status: 'draining' });
    await expect(world.claim('carol')).rejects.toMatchObject({ code: 'worker_draining' });
    world.register('dave', { status: 'offline' });
    await expect(world.claim('dave')).rejects.toMatchObject({ code: 'unknown_worker' });
  });

  test('takes higher priority first, then what is older', async () => {
    const world = new World({ one: [step('a')] });
    const ids: number[] = [];
    for (const priority of [0, 5, -5, 5]) ids.push((await world.start('one', { priority })).executionId);
    const granted = await world.claim('alice');
    expect(granted.map(({ row }) => row.executionId)).toEqual([ids[1], ids[3], ids[0], ids[2]]);
  });

  test('without a wait gets what is there although the execution is being written for others', async () => {
    const world = new World({ ten: loop(10) });
    await world.start('ten');
    let commits = 0;
    let write = () => {};
    const written = new Promise<void>((resolve) => {
      write = resolve;
    });
    const slow: Store = {
      ...world.store,
      commit: async (flush, onPhase) => {
        commits += 1;
        await written;
        return world.store.commit(flush, onPhase);
      },
    };
    const server = world.another(slow);
    const claimed = [world.claim('alice', { max: 2 }, server)];
    await vi.waitUntil(() => commits === 1);
    for (const worker of ['bob', 'alice', 'bob']) {
      claimed.push(world.claim(worker, { max: 2 }, server));
      await settled();
    }
    write();
    expect((await Promise.all(claimed)).map((commands) => commands.length)).toEqual([2, 2, 2, 2]);
    // Whoever was passed over shares the next transaction.
    expect(commits).toBe(2);
    checkStore(world.store);
  });

  test('without a wait looks at the store before it says that there is nothing', async () => {
    const world = new World({ one: [step('a')] });
    const other = world.another();
    world.losesHints = true;
    expect(await world.claim('alice', {}, other)).toEqual([]);
    for (let run = 0; run < 2; run += 1) {
      const { executionId } = await world.start('one');
      const [granted] = await world.claim('alice', {}, other);
      expect(granted?.row.executionId).toBe(executionId);
    }
    checkStore(world.store);
  });

  test('finds what is there behind what another server has given away', async () => {
    const world = new World({ one: [step('a')] });
    const other = world.another();
    for (let count = 0; count < 400; count += 1) await world.start('one');
    expect(await world.claim('alice', { max: 390 })).toHaveLength(390);
    const questions = vi.spyOn(world.store, 'standing');
    const loads = vi.spyOn(world.store, 'load');
    expect(await world.claim('bob', { max: 1 }, other)).toHaveLength(1);
    // 399 hints, all of which it has by now compared, and two executions looked at: the first, and the one it was given.
    expect([questions.mock.calls.length, loads.mock.calls.length]).toEqual([2, 2]);
    expect(await world.claim('bob', { max: 20, waitMs: 10_000 }, other)).toHaveLength(9);
    expect(await world.claim('bob', { max: 1 }, other)).toEqual([]);
    checkStore(world.store);
  });

  test('that waits is not left waiting because what it was woken for is gone', async () => {
    const world = new World({ one: [step('a')] });
    const deaf: Bus = { publish: () => {}, subscribe: () => () => {}, state: () => 'ok', close: async () => {} };
    vi.spyOn(world.exchange, 'connect').mockReturnValue(deaf);
    const other = world.another();
    expect(await world.claim('bob', { max: 1 }, other)).toEqual([]);
    for (let count = 0; count < 20; count += 1) await world.start('one');
    const hints = await world.store.pending(['shared'], 20);
    expect(await world.claim('alice', { max: 19 })).toHaveLength(19);
    const waiting = world.claim('bob', { max: 1, waitMs: 30_000 }, other);
    await settled();
    const since = performance.now();
    other.recovery.onHint(hints);
    expect((await waiting).map(({ row }) => row.commandId)).toEqual([hints[19]?.commandId]);
    expect(performance.now() - since).toBeLessThan(2_000);
  });

  test('goes on when what stands cannot be asked', async () => {
    const world = new World({ one: [step('a')] });
    const other = world.another();
    for (let count = 0; count < 4; count += 1) await world.start('one');
    expect(await world.claim('alice', { max: 3 })).toHaveLength(3);
    world.store.standing = () => Promise.reject(new UnavailableError());
    expect(await world.claim('bob', { max: 1 }, other)).toHaveLength(1);
  });

  test('keeps to its pools and kinds of tool', async () => {
    const world = new World({ one: [step('a')], 'system/x': [step('a', { tool: { kind: 'python', code: 'x' } })] });
    await world.start('one');
    await world.start('system/x');
    await world.start('one', { executionPool: 'gpu' });
    expect(await world.claim('alice', { pools: ['gpu'] })).toHaveLength(1);
    expect(await world.claim('alice', { pools: ['system'], toolKinds: ['noop'] })).toEqual([]);
    expect(await world.claim('alice', { pools: ['system'], toolKinds: ['python'] })).toHaveLength(1);
    expect(await world.claim('alice')).toHaveLength(1);
  });

  test('waits for what comes, and is handed it in the flush that issues it', async () => {
    const world = new World({ one: [step('a')] });
    const waiting = world.claim('alice', { waitMs: 10_000 });
    await settled();
    const { executionId } = await world.start('one');
    expect((await waiting).map(({ row }) => row.executionId)).toEqual([executionId]);
    expect(world.types(executionId)).toEqual([
      'execution.started one',
      'step.enter a',
      'command.issued a',
      'command.claimed a',
    ]);
  });

  test('does not get again what it has, when a look at the store comes after the grant', async () => {
    const world = new World({ one: [step('a')] });
    await world.start('one');
    const late = await world.store.pending(['shared'], 1);
    expect(await world.claim('alice')).toHaveLength(1);
    world.server.recovery.onHint(late);
    expect(await world.claim('alice')).toEqual([]);
    // Once the lease is over it is a candidate again, for its holder too.
    world.clock.advance(121_000);
    world.server.recovery.onHint(late);
    expect(await world.claim('alice')).toMatchObject([{ row: { commandId: late[0]?.commandId, attempt: 1 } }]);
    checkStore(world.store);
  });

  test('stops waiting when its caller is gone', async () => {
    const world = new World({ one: [step('a')] });
    const caller = new AbortController();
    const waiting = world.claim('alice', { waitMs: 10_000, signal: caller.signal });
    await settled();
    caller.abort();
    expect(await waiting).toEqual([]);
    await world.start('one');
    expect(await world.claim('bob')).toHaveLength(1);
  });

  test('stops waiting when the server stops', async () => {
    const world = new World({ one: [step('a')] });
    const waiting = world.claim('alice', { waitMs: 10_000 });
    await settled();
    await world.server.stop();
    expect(await waiting).toEqual([]);
    await expect(world.start('one')).rejects.toMatchObject({ code: 'shutting_down' });
  });

  test.each(['paused', 'draining'])(
    'gives nothing to a worker that is %s, until it says that it is ready',
    async (status) => {
      const world = new World({ one: [step('a')] });
      const id = (await world.start('one')).executionId;
      const { commandId } = world.command(id, 'a@1');
      world.register('alice', { status });
      const { commands } = world.server;
      const refusal = { code: 'worker_draining', message: `Worker alice is ${status}` };
      await expect(world.claim('alice')).rejects.toMatchObject(refusal);
      await expect(commands.claim(commandId, 'alice', null)).rejects.toMatchObject(refusal);
      expect((await world.exchangeWith('alice', [], { claimId: 'c' })).commands).toHaveLength(1);
      expect(world.workers.get('alice')?.status).toBe('ready');
    },
  );

  test('gives nothing while the server drains, and goes on when it is told to', async () => {
    const world = new World({ one: [step('a')] });
    const id = (await world.start('one')).executionId;
    const { commandId } = world.command(id, 'a@1');
    world.server.commands.drain();
    await expect(world.claim('alice')).rejects.toMatchObject({ code: 'shutting_down' });
    await expect(world.claim('alice', { waitMs: 10_000 })).rejects.toMatchObject({ code: 'shutting_down' });
    await expect(world.server.commands.claim(commandId, 'alice', null)).rejects.toMatchObject({
      code: 'shutting_down',
    });
    expect(world.command(id, 'a@1').status).toBe('PENDING');
    world.server.commands.drain(false);
    expect(await world.claim('alice')).toHaveLength(1);
  });

  test('repeated by its id gives the same again', async () => {
    const world = new World({ ten: loop(10) });
    await world.start('ten');
    const once = await world.claim('alice', { max: 3, claimId: 'c1' });
    const again = await world.claim('alice', { max: 3, claimId: 'c1' });
    expect(again.map(({ row }) => [row.commandId, row.attempt])).toEqual(
      once.map(({ row }) => [row.commandId, row.attempt]),
    );
    world.crash();
    expect(await world.claim('alice', { max: 3, claimId: 'c1' })).toHaveLength(3);
    expect(await world.claim('alice', { max: 3, claimId: 'c2' })).toHaveLength(3);
    expect(
      world.commandsOf(world.store.executions()[0]?.executionId ?? 0).filter((row) => row.status === 'CLAIMED'),
    ).toHaveLength(6);
  });

  test('repeated by its id gives the same again at a server that knows the worker', async () => {
    const world = new World({ ten: loop(10) });
    const other = world.another();
    await world.start('ten');
    await world.claim('alice', { max: 1, claimId: 'c0' }, other);
    const once = await world.claim('alice', { max: 3, claimId: 'c1' });
    const again = await world.claim('alice', { max: 3, claimId: 'c1' }, other);
    const idsOf = (granted: readonly GrantedCommand[]) => granted.map(({ row }) => [row.commandId, row.attempt]);
    expect(idsOf(again)).toEqual(idsOf(once));
    const [done] = once;
    if (done === undefined) throw new Error('nothing was granted');
    const reports = [world.reportOf(done)];
    const answer = await world.exchangeWith('alice', reports, { max: 2, claimId: 'c2' });
    expect(answer.commands).toHaveLength(2);
    const repeat = await world.exchangeWith('alice', reports, { max: 2, claimId: 'c2' }, other);
    expect(repeat.reports[0]?.result).toBe('duplicate');
    expect(idsOf(repeat.commands)).toEqual(idsOf(answer.commands));
    const more = await world.exchangeWith('alice', reports, { max: 2, claimId: 'c3' }, other);
    expect(more.commands).toHaveLength(2);
    checkStore(world.store);
  });

  test('hears of commands that another server issued for an execution that is live here', async () => {
    const world = new World({ two: [step('a', first('b')), step('b')] });
    const other = world.another();
    const { executionId } = await world.start('two');
    await other.supervisor.actor(executionId);
    const waiting = world.claim('bob', { waitMs: 10_000 }, other);
    await settled();
    const [first_] = await waiting;
    await world.exchangeWith('bob', [world.reportOf(first_ as GrantedCommand)]);
    const next = world.claim('bob', { waitMs: 10_000 }, other);
    expect((await next).map(({ row }) => row.stepName)).toEqual(['b']);
    checkStore(world.store);
  });

  test('is told again of what another server granted anew, by a server that remembers the holder before', async () => {
    const world = new World({ one: [step('a')] });
    const other = world.another();
    const { executionId } = await world.start('one');
    // This server knows the grant to alice, and keeps the execution.
    expect(await world.claim('alice')).toHaveLength(1);
    const { registeredAt = '' } = world.workers.get('alice') ?? {};
    world.register('alice', { status: 'offline' });
    const { commandId } = world.command(executionId, 'a@1');
    // Bob never hears of it.
    await other.commands.claim(commandId, 'bob', null);
    await world.exchangeWith('bob', [], {});
    world.clock.advance(10_500);
    world.register('alice', { registeredAt });
    const { commands } = await world.exchangeWith('bob', [], { waitMs: 4_000 });
    expect(commands[0]?.row).toMatchObject({ commandId, attempt: 2, workerId: 'bob' });
    checkStore(world.store);
  });

  test('that meets a database that is away gives what is there when it is back', async () => {
    const world = new World({ ten: loop(4) });
    await world.start('ten');
    world.server.supervisor.evict(world.store.executions()[0]?.executionId ?? 0);
    const load = world.store.load;
    world.store.load = async () => {
      throw new UnavailableError();
    };
    expect(await world.claim('alice')).toEqual([]);
    world.store.load = load;
    expect(await world.claim('alice')).toHaveLength(4);
    checkStore(world.store);
  });

  test('that meets a commit which fails gives what is there after it', async () => {
    const world = new World({ ten: loop(4) });
    await world.start('ten');
    world.store.hooks.beforeCommit = () => {
      world.store.hooks.beforeCommit = () => {};
      throw new UnavailableError();
    };
    expect([...(await world.claim('alice')), ...(await world.claim('alice'))]).toHaveLength(4);
    checkStore(world.store);
  });
});

describe('an exchange', () => {
  test('hands the successor of what it reports over in the same transaction', async () => {
    const world = new World({ two: [step('a', first('b')), step('b')] });
    const { executionId } = await world.start('two');
    const [command] = await world.claim('alice');
    let commits = 0;
    world.store.hooks.afterCommit = () => {
      commits += 1;
    };
    const { commands } = await world.exchangeWith('alice', [world.reportOf(command as GrantedCommand)], {
      claimId: 'x',
      max: 5,
    });
    expect(commands.map(({ row }) => row.stepName)).toEqual(['b']);
    expect(commits).toBe(1);
    expect(world.types(executionId).slice(-3)).toEqual(['step.enter b', 'command.issued b', 'command.claimed b']);
  });

  test('of a worker that was registered by another instance is refused', async () => {
    const world = new World({});
    world.register('alice', { instance: 'new' });
    const request = {
      workerId: 'alice',
      instance: 'old',
      status: 'ready',
      holding: [],
      reports: [],
      claim: null,
    } as const;
    await expect(world.server.commands.exchange(request)).rejects.toMatchObject({ code: 'worker_restarted' });
  });

  test('of a draining worker gives it nothing and remembers it', async () => {
    const world = new World({ one: [step('a')] });
    await world.start('one');
    const answer = await world.server.commands.exchange({
      workerId: 'alice',
      instance: null,
      status: 'draining',
      holding: [],
      reports: [],
      claim: world.claimOf('alice', { claimId: 'c' }),
    });
    expect(answer.commands).toEqual([]);
    expect(world.workers.get('alice')?.status).toBe('draining');
  });

  test('tells a worker to stop what was cancelled, taken from it, finished or never there', async () => {
    const world = new World({ one: [step('a')] });
    const runs = [];
    for (let count = 0; count < 3; count += 1) runs.push((await world.start('one')).executionId);
    const commands = await world.claim('alice');
    const [a, b, c] = commands.map(({ row }) => ({ commandId: row.commandId, attempt: row.attempt }));
    if (a === undefined || b === undefined || c === undefined) throw new Error('three were started');
    await world.server.executions.cancel(runs[0] ?? 0, { reason: 'r', cascade: false, by: 'api' });
    await world.report(commands[1] as GrantedCommand);
    world.clock.advance(11_000);
    await world.server.commands.claim(c.commandId, 'bob', null);
    const { stop } = await world.server.commands.exchange({
      workerId: 'alice',
      instance: null,
      status: 'ready',
      holding: [a, b, c, { commandId: 5, attempt: 1 }],
      reports: [],
      claim: null,
    });
    expect(stop.map((order) => order.reason)).toEqual([
      'execution_cancelled',
      'execution_finished',
      'stale',
      'unknown',
    ]);
  });

  test('that waits elsewhere ends at once when the run is cancelled, and within the check when no hint comes', async () => {
    const world = new World({ one: [step('a')] });
    const other = world.another();
    await world.start('one');
    const [command] = await world.claim('alice', {}, other);
    if (command === undefined) throw new Error('nothing was granted');
    const holding = [{ commandId: command.row.commandId, attempt: 1 }];
    const exchange = other.commands.exchange({
      ...{ workerId: 'alice', instance: null, status: 'ready', holding, reports: [] },
      claim: world.claimOf('alice', { waitMs: 60_000 }),
    });
    await settled();
    await world.server.executions.cancel(command.row.executionId, { reason: 'enough', cascade: true, by: 'api' });
    expect((await exchange).stop).toEqual([{ ...holding[0], reason: 'execution_cancelled' }]);

    const deaf = new World({ one: [step('a')] });
    const third = deaf.another();
    await deaf.start('one');
    const [held] = await deaf.claim('alice', {}, third);
    if (held === undefined) throw new Error('nothing was granted');
    await third.stop();
    const { executionId, commandId } = held.row;
    await deaf.server.executions.cancel(executionId, { reason: 'enough', cascade: true, by: 'api' });
    await settled();
    expect(await third.commands.stopOrders('alice', [{ commandId, attempt: 1 }])).toEqual([]);
    deaf.clock.advance(2_500);
    expect(await third.commands.stopOrders('alice', [{ commandId, attempt: 1 }])).toEqual([
      { commandId, attempt: 1, reason: 'execution_cancelled' },
    ]);
  });

  test('is told from memory what to stop, and from the store where it has to be right', async () => {
    const world = new World({ one: [step('a')] });
    const other = world.another();
    world.losesHints = true;
    await world.start('one');
    const [held] = await world.claim('alice', {}, other);
    if (held === undefined) throw new Error('nothing was granted');
    const { executionId, commandId } = held.row;
    await world.server.executions.cancel(executionId, { reason: 'enough', cascade: true, by: 'api' });
    const hold = { commandId, attempt: 1 };
    expect(await other.commands.stopOrders('alice', [hold])).toEqual([]);
    expect(await other.commands.stopOrders('alice', [hold], true)).toEqual([
      { ...hold, reason: 'execution_cancelled' },
    ]);
  });

  test('that waits ends at once when what it works on is given to another, and soon when no hint comes', async () => {
    const world = new World({ one: [step('a')] }, { cancelCheckSeconds: 0.05 });
    const other = world.another();
    for (const taker of [world.server, other]) {
      await world.start('one');
      world.register('alice');
      const [command] = await world.claim('alice');
      if (command === undefined) throw new Error('nothing was granted');
      const { commandId } = command.row;
      const holding = [{ commandId, attempt: 1 }];
      const waiting = world.server.commands.exchange({
        ...{ workerId: 'alice', instance: null, status: 'ready', holding, reports: [] },
        claim: world.claimOf('alice', { waitMs: 60_000 }),
      });
      await settled();
      world.clock.advance(100);
      world.register('alice');
      expect((await taker.commands.claim(commandId, 'bob', null)).row.attempt).toBe(2);
      expect((await waiting).stop).toEqual([{ commandId, attempt: 1, reason: 'stale' }]);
      await world.server.executions.cancel(command.row.executionId, { reason: 'over', cascade: true, by: 'api' });
      world.clock.advance(60_000);
    }
    checkStore(world.store);
  });

  test('counts as heard for as long as its answer takes, also where the database is slow or away', async () => {
    const world = new World({ one: [step('a')] });
    await world.start('one');
    const { promise, reject } = Promise.withResolvers<never>();
    const { heldBy } = world.store;
    world.store.heldBy = () => promise;
    const exchange = world.exchangeWith('alice', [], {});
    await settled();
    expect(world.asking).toEqual(['alice']);
    reject(new UnavailableError());
    await exchange.catch(() => {});
    expect(world.asking).toEqual([]);
    world.store.heldBy = heldBy;
    expect((await world.exchangeWith('alice', [], {})).commands).toHaveLength(1);
    expect(world.asking).toEqual([]);
  });

  test.each([
    { hardTimeoutSeconds: 180, leaseSeconds: 120, everySeconds: 10 },
    { hardTimeoutSeconds: 6, leaseSeconds: 3, everySeconds: 1 },
  ])('refreshes what is still held, so that it is not taken away: %o', async ({ everySeconds, ...times }) => {
    const world = new World({ one: [step('a')] }, { policy: { ...times, heartbeatStaleSeconds: 30 } });
    const { executionId } = await world.start('one');
    const [command] = await world.claim('alice');
    const hold = { commandId: command?.row.commandId ?? 0, attempt: 1 };
    for (let count = 0; count < 19; count += 1) {
      world.clock.advance(everySeconds * 1000);
      await world.server.commands.exchange({
        workerId: 'alice',
        instance: null,
        status: 'ready',
        holding: [hold],
        reports: [],
        claim: null,
      });
    }
    await expect(world.server.commands.claim(hold.commandId, 'bob', null)).rejects.toMatchObject({
      data: { claim_policy: { reason: 'healthy_worker_active' } },
    });
    expect(world.types(executionId)).toHaveLength(4);
  });
});

describe('the board', () => {
  const hint = (commandId: number, change: Partial<CommandHint> = {}): CommandHint => ({
    executionId: commandId,
    commandId,
    pool: 'shared',
    priority: 0,
    toolKind: 'noop',
    stepName: 'a',
    attempt: 0,
    republishCount: 0,
    trace: null,
    ...change,
  });
  const claimant = (change: Partial<Claimant> = {}): Claimant => ({
    workerId: 'w',
    pools: ['shared'],
    toolKinds: null,
    claimId: null,
    max: 4,
    room: 4,
    granted: [],
    onGranted() {},
    isClosed: false,
    ...change,
  });
  const taken = (board: CommandBoard, who: Claimant) => board.take(who).map((each) => each.commandId);

  test('gives the highest priority first, also across pools', () => {
    const board = new CommandBoard();
    board.post(hint(1));
    board.post(hint(2, { priority: 9, pool: 'gpu' }));
    board.post(hint(3, { priority: 5 }));
    expect(taken(board, claimant({ pools: ['shared', 'gpu'] }))).toEqual([2, 3, 1]);
    expect(board.size).toBe(0);
  });

  test('gives one execution at most half while others wait, and the rest when they do not', () => {
    const board = new CommandBoard();
    for (let id = 1; id <= 6; id += 1) board.post(hint(id, { executionId: 1 }));
    board.post(hint(10, { executionId: 2 }));
    expect(taken(board, claimant())).toEqual([1, 2, 10, 3]);
    expect(taken(board, claimant())).toEqual([4, 5, 6]);
  });

  test('knows a command once and forgets it when it is dropped', () => {
    const board = new CommandBoard();
    board.post(hint(1));
    board.post(hint(1));
    expect(board.size).toBe(1);
    board.drop(hint(1));
    expect([board.size, board.has(claimant())]).toEqual([0, false]);
  });

  test('finds the first waiter that a command suits', () => {
    const board = new CommandBoard();
    const [full, picky, elsewhere, gone, free] = [
      claimant({ room: 0 }),
      claimant({ toolKinds: new Set(['http']) }),
      claimant({ pools: ['gpu'] }),
      claimant({ isClosed: true }),
      claimant(),
    ];
    for (const each of [full, picky, elsewhere, gone, free]) if (each !== undefined) board.wait(each);
    expect(board.takeWaiter(hint(1))).toBe(free);
    expect(board.takeWaiter(hint(1))).toBeNull();
    expect([...board.waitedPools()].sort()).toEqual(['gpu', 'shared']);
    expect(board.waiters).toBe(4);
  });

  test('shows what is next without taking it, and forgets only what it still knows in the same words', () => {
    const board = new CommandBoard();
    for (const one of [hint(1), hint(2, { toolKind: 'python' }), hint(3, { priority: 5 })]) board.post(one);
    const seen = board.peek(claimant({ toolKinds: new Set(['noop']) }), 10);
    expect(seen.map(({ commandId }) => commandId)).toEqual([3, 1]);
    expect(board.peek(claimant(), 2)).toHaveLength(2);
    board.post(hint(1));
    board.post(hint(3, { priority: 5, retry: true }));
    board.forget(seen);
    expect(board.size).toBe(2);
    expect(board.take(claimant())).toMatchObject([{ commandId: 3, retry: true }, { commandId: 2 }]);
  });

  test('forgets the names of pools and priorities that nothing is left of', () => {
    const board = new CommandBoard();
    for (let id = 1; id <= 1_000; id += 1) board.post(hint(id, { pool: `p${id}`, priority: id % 9 }));
    board.post(hint(2_000, { pool: 'p1', priority: 99 }));
    expect(board.pools).toBe(1_000);
    expect(taken(board, claimant({ pools: ['p1', 'p2'], max: 9, room: 9 }))).toEqual([2_000, 2, 1]);
    for (let id = 3; id <= 1_000; id += 1) board.drop(hint(id, { pool: `p${id}` }));
    expect([board.size, board.pools]).toEqual([0, 0]);
    board.post(hint(1));
    expect(taken(board, claimant())).toEqual([1]);
  });

  test('leaves what a claimant cannot run', () => {
    const board = new CommandBoard();
    board.post(hint(1, { toolKind: 'http' }));
    expect(taken(board, claimant({ toolKinds: new Set(['noop']) }))).toEqual([]);
    expect(board.size).toBe(1);
  });
});

async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
