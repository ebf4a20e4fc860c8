import { beforeEach, describe, expect, test } from 'vitest';
import { explainExecution } from '../../actors/explain.ts';
import type { GrantedCommand, ReportedOutcome, WorkerRow } from '../../actors/services.ts';
import { foldCommand } from '../../machines/command/history.ts';
import { resumeOf, retryWaitOf } from '../../machines/command/retry-wait.ts';
import { checkStore } from '../support/invariants.ts';
import { every, step } from '../support/playbooks.ts';
import { World } from '../support/world.ts';

const STATE = { pipeline: { index: 0 } };

/** A report that asks for the next try in an hour. */
const wait = (change: Partial<NonNullable<ReportedOutcome['resume']>> = {}): Partial<ReportedOutcome> => ({
  outcome: 'parked',
  resume: { afterSeconds: 3600, timeoutSeconds: 20_000, state: STATE, ...change },
  error: { kind: 'server_error', code: 'HTTP_503', message: 'busy', retryable: true },
});

const HOUR_MS = 3_600_000;

function only(granted: readonly GrantedCommand[]): GrantedCommand {
  const [command] = granted;
  if (command === undefined || granted.length > 1) throw new Error(`${granted.length} commands were granted, not one`);
  return command;
}

describe('a command whose next try lies ahead', () => {
  let world: World;
  let id: number;
  let granted: GrantedCommand;

  beforeEach(async () => {
    world = new World({
      one: [step('a')],
      two: [step('start', every('a', 'b')), step('a'), step('b')],
    });
    id = (await world.start('one')).executionId;
    granted = only(await world.claim());
  });

  const row = () => world.command(id, 'a@1');
  const explained = (workers: readonly WorkerRow[] = []) =>
    explainExecution(id, {
      reads: {
        execution: async (executionId) => world.row(executionId),
        commands: async () => world.commandsOf(id),
      },
      workers: { list: async () => workers },
      clock: world.clock,
      standing: async () => null,
      reaperIntervalSeconds: 30,
      staleSeconds: 60,
    });
  const claims = () => world.store.log(id).filter((event) => event.type === 'command.claimed');

  test("is nobody's work: the row keeps the state, the log tells of it, no turn is taken", async () => {
    expect(await world.report(granted, wait({}))).toMatchObject({ result: 'accepted', commandsGenerated: 0 });
    expect(row()).toMatchObject({ status: 'RUNNING', parkedOn: 0, attempt: 1, maxAttempts: 6 });
    expect(row().nextWakeAt).toBe(new Date(world.clock.now() + HOUR_MS).toISOString());
    expect(retryWaitOf(row())).toMatchObject({ attempt: 1, state: STATE });
    expect(world.types(id).slice(-2)).toEqual(['command.started a', 'command.heartbeat a']);
    expect(world.store.log(id).at(-1)?.context).toMatchObject({ resume: STATE, resume_at: row().nextWakeAt });
    expect(await world.store.heldBy('alice')).toEqual([]);
    expect(foldCommand(world.store.log(id).filter((event) => event.commandId === row().commandId)).value).toBe(
      'PARKED',
    );
    checkStore(world.store);
  });

  test('is refused before its time and granted to anybody at its time, with the state', async () => {
    await world.report(granted, wait());
    await expect(world.server.commands.claim(row().commandId, 'bob', null)).rejects.toMatchObject({
      code: 'active_claim',
      data: { claim_policy: { reason: 'parked' } },
    });
    world.clock.advance(HOUR_MS);
    await world.server.recovery.settleParked();
    const again = only(await world.claim('bob'));
    expect(again.row).toMatchObject({ commandId: row().commandId, attempt: 2, workerId: 'bob', parkedOn: null });
    expect(resumeOf(again.row)).toMatchObject({ state: STATE });
    expect(claims().at(-1)?.meta).toMatchObject({ reason: 'retry_due', attempt: 2 });
    await world.report(again, { data: { ok: true } });
    expect(world.row(id).status).toBe('completed');
    checkStore(world.store);
  });

  test('wakes a worker that waits, at its time and by itself', async () => {
    await world.report(granted, wait({ afterSeconds: 0.05 }));
    const waiting = world.claim('bob', { waitMs: 10_000 });
    world.clock.advance(50);
    expect(only(await waiting).row).toMatchObject({ attempt: 2, workerId: 'bob' });
  });

  test('may wait more often than it may be lost', async () => {
    let command = granted;
    for (let round = 0; round < 8; round += 1) {
      await world.report(command, wait());
      world.clock.advance(HOUR_MS);
      await world.server.recovery.settleParked();
      command = only(await world.claim());
    }
    expect(command.row).toMatchObject({ attempt: 9, maxAttempts: 13 });
    await world.report(command, {});
    expect(world.row(id).status).toBe('completed');
    expect(world.types(id).filter((type) => type.startsWith('command.started'))).toHaveLength(1);
    checkStore(world.store);
  });

  test('goes on from the same state when the worker that took it up is lost', async () => {
    await world.report(granted, wait());
    world.clock.advance(HOUR_MS);
    await world.server.recovery.settleParked();
    await world.claim('alice');
    world.clock.advance(200_000);
    await world.sweep();
    const third = only(await world.claim('bob'));
    expect(third.row.attempt).toBe(3);
    expect(resumeOf(third.row)).toMatchObject({ state: STATE, attempt: 1 });
    await world.report(third, {});
    checkStore(world.store);
  });

  test('outlives the server: the next one offers it at its time', async () => {
    await world.report(granted, wait({ afterSeconds: 0.05 }));
    await world.crash().recovery.start();
    const waiting = world.claim('bob', { waitMs: 10_000 });
    world.clock.advance(50);
    expect(only(await waiting).row.attempt).toBe(2);
    world.server.recovery.stop();
  });

  test('is granted by a server that still believes somebody works on it', async () => {
    const other = world.another();
    await other.commands.get(row().commandId);
    await world.report(granted, wait());
    world.clock.advance(HOUR_MS);
    other.recovery.onHint(await world.store.overdue(10));
    expect(only(await world.claim('bob', { waitMs: 10_000 }, other)).row.attempt).toBe(2);
  });

  test('reported twice waits once, and a claim that was outrun changes nothing', async () => {
    const report = world.reportOf(granted, wait());
    await world.exchangeWith('alice', [report]);
    const length = world.store.log(id).length;
    expect((await world.exchangeWith('alice', [report])).reports[0]?.result).toBe('duplicate');
    expect(world.store.log(id)).toHaveLength(length);
    world.clock.advance(HOUR_MS);
    await world.server.recovery.settleParked();
    const again = only(await world.claim('bob'));
    expect((await world.report(granted, wait(), { reportId: 'other' })).result).toBe('stale');
    expect(row()).toMatchObject({ attempt: again.row.attempt, parkedOn: null });
    checkStore(world.store);
  });

  test('ends with a cancel', async () => {
    await world.report(granted, wait());
    await world.server.executions.cancel(id, { reason: 'enough', cascade: true, by: 'api' });
    expect(row().status).toBe('CANCELLED');
    world.clock.advance(HOUR_MS);
    await world.server.recovery.settleParked();
    expect(await world.claim()).toEqual([]);
    checkStore(world.store);
  });

  test('fails when the time of its step ends first, with the variables written so far', async () => {
    await world.report(granted, { ...wait({ timeoutSeconds: 60 }), ctx: { seen: 1 } });
    expect(row().nextWakeAt).toBe(new Date(world.clock.now() + 60_000).toISOString());
    world.clock.advance(60_000);
    expect(await world.server.recovery.settleParked()).toBe(1);
    expect(world.row(id)).toMatchObject({ status: 'failed' });
    expect(world.row(id).error).toContain('did not end within');
    const updates = world.store.log(id).filter((event) => event.type === 'ctx.updated');
    expect(updates[0]?.context).toMatchObject({ values: { seen: 1 } });
    checkStore(world.store);
  });

  test('is given up when another branch fails, before and after it asks', async () => {
    const other = (await world.start('two')).executionId;
    await world.report(only(await world.claim()), {});
    const [a, b] = await world.claim();
    if (a === undefined || b === undefined) throw new Error('two branches are open');
    await world.report(a, wait());
    await world.report(b, { outcome: 'error', error: { kind: 'logic', message: 'no', retryable: false } });
    expect(world.row(other).status).toBe('failed');
    expect(world.commandsOf(other).map((each) => each.status)).toContain('CANCELLED');
    checkStore(world.store);

    const late = (await world.start('two')).executionId;
    await world.report(only(await world.claim()), {});
    const [c, d] = await world.claim();
    if (c === undefined || d === undefined) throw new Error('two branches are open');
    await world.report(d, { outcome: 'error', error: { kind: 'logic', message: 'no', retryable: false } });
    expect(world.row(late).status).toBe('running');
    await world.report(c, wait());
    expect(world.row(late).status).toBe('failed');
    checkStore(world.store);
  });

  test('that is due and that nobody can take is explained as such', async () => {
    await world.report(granted, wait());
    world.clock.advance(HOUR_MS);
    expect(await explained()).toMatchObject({ stuck: true, waitingOn: [{ because: 'no_ready_worker' }] });
  });

  test('of a kind that no worker of the pool takes is explained as such', async () => {
    await world.report(granted, wait());
    world.clock.advance(HOUR_MS);
    world.register('carol', { toolKinds: ['http'] });
    const carol = world.workers.get('carol');
    expect((await explained(carol === undefined ? [] : [carol])).sentence).toMatch(
      /no ready worker of it takes tool kind 'noop'\.$/,
    );
  });

  test('is explained', async () => {
    await world.report(granted, wait());
    const explanation = await explained();
    expect(explanation).toMatchObject({ stuck: false, waitingOn: [{ because: 'retry_wait' }] });
    expect(explanation.sentence).toBe(
      `Waiting for the next try of command ${row().commandId} (step 'a') at ${row().nextWakeAt}.`,
    );
  });
});
