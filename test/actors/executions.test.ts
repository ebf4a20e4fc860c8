import { describe, expect, test, vi } from 'vitest';
import { UnavailableError } from '../../actors/ports.ts';
import type { GrantedCommand } from '../../actors/services.ts';
import { checkStore } from '../support/invariants.ts';
import { first, step } from '../support/playbooks.ts';
import { LIMITS } from '../support/story.ts';
import { World } from '../support/world.ts';

const ONE = { one: [step('a')], two: [step('a', first('b')), step('b')] };
const by = { reason: 'enough', cascade: true, by: 'api' } as const;

describe('a start', () => {
  test('writes the first turn and answers what it generated', async () => {
    const world = new World(ONE);
    const receipt = await world.start('one', { workload: { who: 'me' }, priority: 3, labels: { team: 'x' } });
    expect(receipt).toMatchObject({
      path: 'one',
      version: 1,
      kind: 'playbook',
      commandsGenerated: 1,
      duplicate: false,
      waited: null,
    });
    expect(world.row(receipt.executionId)).toMatchObject({
      status: 'running',
      workload: { who: 'me' },
      priority: 3,
      pool: 'shared',
      labels: { team: 'x' },
      openCommands: 1,
      rootExecutionId: receipt.executionId,
    });
    checkStore(world.store);
  });

  test('with a key happens once, however often and however concurrently it is asked for', async () => {
    const world = new World(ONE);
    const other = world.another();
    const starts = await Promise.all(
      [0, 1, 2, 3, 4, 5].map((n) => world.start('one', { idempotencyKey: 'k' }, n % 2 === 0 ? other : world.server)),
    );
    expect(new Set(starts.map((each) => each.executionId)).size).toBe(1);
    expect(starts.filter((each) => !each.duplicate)).toHaveLength(1);
    expect((await world.start('two', { idempotencyKey: 'k' })).duplicate).toBe(false);
    expect(world.lines.filter((line) => line.level === 'error')).toEqual([]);
  });

  test('is refused while the server drains, but for children that a running execution waits for', async () => {
    const world = new World(ONE);
    const top = (await world.start('one')).executionId;
    const [command] = await world.claim('alice');
    const { executions } = world.server;
    executions.drain();
    await expect(world.start('two')).rejects.toMatchObject({ code: 'shutting_down' });
    const parent = { parentExecutionId: top, parentCommandId: command?.row.commandId ?? 0 };
    expect(world.row((await world.start('two', parent)).executionId)).toMatchObject({ rootExecutionId: top });
    executions.drain(false);
    expect((await world.start('two')).commandsGenerated).toBe(1);
  });

  test('with a used key and another body is refused', async () => {
    const world = new World(ONE);
    await world.start('one', { idempotencyKey: 'k', workload: { b: 1, a: 2 } });
    expect((await world.start('one', { idempotencyKey: 'k', workload: { a: 2, b: 1 } })).duplicate).toBe(true);
    await expect(world.start('one', { idempotencyKey: 'k', workload: { a: 3 } })).rejects.toMatchObject({
      code: 'idempotency_conflict',
    });
  });

  test('with a used key and the same body answers what the first was answered, however far the run is', async () => {
    const world = new World({ three: [step('a', first('b')), step('b'), step('end')] });
    const { startedAt, ...once } = await world.start('three', { idempotencyKey: 'k' });
    expect(once).toMatchObject({ commandsGenerated: 1, duplicate: false });
    for (let count = 0; count < 2; count += 1) await world.report((await world.claim())[0] as GrantedCommand);
    expect(await world.start('three', { idempotencyKey: 'k' })).toEqual({ ...once, startedAt, duplicate: true });
  });

  test.each([{ version: 1 }, { executionPool: 'gpu' }, { priority: 5 }, { labels: { team: 'ops' } }])(
    'with a used key and %j beside the same inputs is refused',
    async (said) => {
      const world = new World(ONE);
      const first = await world.start('one', { idempotencyKey: 'k' });
      await expect(world.start('one', { idempotencyKey: 'k', ...said })).rejects.toMatchObject({
        code: 'idempotency_conflict',
      });
      const plain = { version: 'latest', priority: 0, labels: {}, executionPool: null, waitMs: 1 } as const;
      expect(await world.start('one', { idempotencyKey: 'k', ...plain })).toMatchObject({
        ...{ duplicate: true, executionId: first.executionId },
      });
    },
  );

  test('with a used key answers the first also when its playbook is archived, and starts nothing new', async () => {
    const world = new World(ONE);
    const first = await world.start('one', { idempotencyKey: 'k' });
    const { catalogId } = first;
    world.archived.add('one');
    const repeat = (more: object) => world.server.executions.start({ path: 'one', workload: {}, ...more });
    const { duplicate, executionId } = await repeat({ idempotencyKey: 'k' });
    expect({ duplicate, executionId }).toEqual({ duplicate: true, executionId: first.executionId });
    await expect(repeat({ idempotencyKey: 'k', workload: { a: 1 } })).rejects.toMatchObject({
      code: 'idempotency_conflict',
    });
    // The number of the entry was not said the first time.
    await expect(repeat({ path: undefined, catalogId, idempotencyKey: 'k' })).rejects.toMatchObject({
      code: 'idempotency_conflict',
    });
    for (const more of [{}, { idempotencyKey: 'other' }, { idempotencyKey: 'k', resourceKind: 'agent' }])
      await expect(repeat(more)).rejects.toMatchObject({ code: 'not_found' });
    expect(world.store.executions()).toHaveLength(1);
  });

  test('whose answer was lost finds itself again by its key', async () => {
    const world = new World(ONE);
    world.store.hooks.afterCommit = () => {
      world.store.hooks.afterCommit = () => {};
      throw new UnavailableError();
    };
    await expect(world.start('one', { idempotencyKey: 'k' })).rejects.toBeInstanceOf(UnavailableError);
    expect((await world.start('one', { idempotencyKey: 'k' })).duplicate).toBe(true);
    expect(world.store.executions()).toHaveLength(1);
  });

  test('below a parent knows its root, and unknown parents and deep nesting are refused', async () => {
    const world = new World(ONE, { nestingMax: 3 });
    let parent = (await world.start('one')).executionId;
    const root = parent;
    for (let depth = 0; depth < 3; depth += 1) {
      parent = (await world.start('one', { parentExecutionId: parent })).executionId;
      expect(world.row(parent).rootExecutionId).toBe(root);
    }
    await expect(world.start('one', { parentExecutionId: parent })).rejects.toMatchObject({ code: 'nesting_too_deep' });
    await expect(world.start('one', { parentExecutionId: 5 })).rejects.toMatchObject({ code: 'not_found' });
    await expect(world.start('nowhere')).rejects.toMatchObject({ code: 'not_found' });
  });

  test('may wait for the end', async () => {
    const world = new World(ONE);
    const started = world.start('one', { waitMs: 5_000 });
    const [command] = await world.claim('alice', { waitMs: 5_000 });
    await world.report(command as GrantedCommand, { data: 9 });
    expect((await started).waited).toEqual({ status: 'completed', result: 9, error: null });
  });

  test('hears of an end at another server, also when the hint of it is lost', async () => {
    const world = new World(ONE);
    const other = world.another();
    world.losesHints = true;
    const started = world.start('one', { waitMs: 60_000 });
    const [command] = await vi.waitUntil(async () => {
      const granted = await world.claim('alice', {}, other);
      return granted.length > 0 && granted;
    });
    await world.exchangeWith('alice', [world.reportOf(command as GrantedCommand, { data: 9 })], null, other);
    expect((await started).waited).toEqual({ status: 'completed', result: 9, error: null });
  });

  test('says where it stands when its wait is ended', async () => {
    const world = new World(ONE);
    const over = new AbortController();
    const started = world.start('one', { waitMs: 60_000, signal: over.signal });
    await world.claim('alice', { waitMs: 5_000 });
    over.abort();
    expect((await started).waited).toEqual({ status: 'running', result: null, error: null });
  });
});

describe('an end from outside', () => {
  test('by cancelling takes running descendants along, parents first', async () => {
    const world = new World(ONE);
    const top = (await world.start('one')).executionId;
    const middle = (await world.start('one', { parentExecutionId: top })).executionId;
    const bottom = (await world.start('one', { parentExecutionId: middle })).executionId;
    expect(await world.server.executions.cancel(top, by)).toEqual({
      status: 'cancelled',
      cancelled: [top, middle, bottom],
      message: 'Cancelled 3 executions',
    });
    expect(world.store.log(middle).at(-2)?.context).toMatchObject({ cancelled_by: 'cascade', cascade_from: top });
    expect(world.store.log(top).at(-2)?.context).toMatchObject({
      reason: 'enough',
      cancelled_by: 'api',
      cancelled_at: expect.any(String),
    });
    expect(await world.server.executions.cancel(top, by)).toEqual({
      status: 'already_completed',
      cancelled: [],
      message: `Execution ${top} is already completed`,
    });
    await expect(world.server.executions.cancel(5, by)).rejects.toMatchObject({ code: 'not_found' });
    checkStore(world.store);
  });

  test('without cascade leaves descendants alone, also one that was waited for', async () => {
    const world = new World({ parent: [step('w', { tool: { kind: 'playbook', path: 'one', wait: true } })], ...ONE });
    const top = (await world.start('parent')).executionId;
    const [command] = await world.claim('alice');
    const child = (await world.start('one', { parentExecutionId: top, parentCommandId: command?.row.commandId ?? 0 }))
      .executionId;
    await world.report(command as GrantedCommand, { outcome: 'parked', childExecutionId: child });
    expect((await world.server.executions.cancel(top, { ...by, cascade: false })).cancelled).toEqual([top]);
    await turns();
    expect(world.row(child).status).toBe('running');
    // What has ended cannot be cancelled; what it left running still can, and is named.
    expect(await world.server.executions.cancel(top, by)).toEqual({
      status: 'already_completed',
      cancelled: [child],
      message: `Execution ${top} is already completed`,
    });
    expect(world.row(child).status).toBe('cancelled');
    checkStore(world.store);
  });

  test('by clean-up takes what is old, and a dry run only says so', async () => {
    const world = new World(ONE);
    const ids = [(await world.start('one')).executionId, (await world.start('one')).executionId].sort((a, b) => a - b);
    world.clock.advance(6 * 60_000);
    const young = (await world.start('one')).executionId;
    const { executions } = world.server;
    expect(await executions.cleanup({ olderThanMinutes: Number.MAX_SAFE_INTEGER, dryRun: false })).toEqual({
      executionIds: [],
      message: 'No stuck executions found older than 9007199254740991 minutes',
      dryRun: false,
    });
    expect(await executions.cleanup({ olderThanMinutes: 5, dryRun: true })).toEqual({
      executionIds: ids,
      dryRun: true,
      message: '[DRY RUN] Would cancel 2 stuck executions older than 5 minutes',
    });
    expect(world.row(ids[0] ?? 0).status).toBe('running');
    expect(await executions.cleanup({ olderThanMinutes: 5, dryRun: false })).toEqual({
      executionIds: ids,
      dryRun: false,
      message: 'Cancelled 2 stuck executions older than 5 minutes',
    });
    expect(await executions.cleanup({ olderThanMinutes: 5, dryRun: false })).toMatchObject({
      executionIds: [],
      message: 'No stuck executions found older than 5 minutes',
    });
    expect(world.row(ids[1] ?? 0)).toMatchObject({
      status: 'cancelled',
      error: 'Stuck execution cleanup: running for more than 5 minutes',
    });
    expect(world.row(young).status).toBe('running');
    checkStore(world.store);
  });

  test.each(['completed', 'failed'] as const)('by finalizing as %s writes the pair', async (status) => {
    const world = new World(ONE);
    const { executionId } = await world.start('one');
    const request = { status, reason: 'left behind', error: null };
    expect((await world.server.executions.finalize(executionId, request)).status).toBe('finalized');
    expect(world.types(executionId).slice(3)).toEqual([
      `workflow.${status} workflow`,
      `playbook.${status} one`,
      'command.cancelled a',
    ]);
    expect(world.row(executionId)).toMatchObject({ status, error: status === 'failed' ? 'left behind' : null });
    expect((await world.server.executions.finalize(executionId, request)).status).toBe('already_completed');
    await expect(world.server.executions.finalize(5, request)).rejects.toMatchObject({ code: 'not_found' });
    checkStore(world.store);
  });

  test('while two servers try to end it happens once', async () => {
    const world = new World(ONE);
    const other = world.another();
    const { executionId } = await world.start('one');
    await other.supervisor.actor(executionId);
    const [command] = await world.claim('alice');
    await Promise.all([
      world.server.executions.cancel(executionId, by),
      other.executions.cancel(executionId, by),
      other.executions.finalize(executionId, { status: 'failed', reason: 'x', error: null }),
      world.exchangeWith('alice', [world.reportOf(command as GrantedCommand)], null, other),
    ]);
    checkStore(world.store);
  });
});

describe('a mailbox', () => {
  test('is bounded, and what it refused may come again', async () => {
    const world = new World(ONE, { mailboxMax: 2 });
    const { executionId } = await world.start('one');
    const say = (n: number) =>
      world.server.executions.recordEvent(world.eventOf(executionId, 'note.taken', { step: 'a', reportId: `n${n}` }));
    const results = await Promise.allSettled([0, 1, 2, 3, 4].map(say));
    const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.code] : []));
    expect(new Set(refused)).toEqual(new Set(['queue_unavailable']));
    for (const n of [0, 1, 2, 3, 4]) await say(n);
    expect(world.store.log(executionId).filter((event) => event.type === 'note.taken')).toHaveLength(5);
  });
});

describe('an execution whose writes the database refuses', () => {
  test('leaves its neighbours alone and is ended', async () => {
    const world = new World(ONE);
    const [sick, well] = [(await world.start('two')).executionId, (await world.start('two')).executionId];
    const commands = await world.claim('alice');
    world.store.hooks.beforeCommit = (flush) => {
      const isSick = flush.events.some((event) => event.executionId === sick && event.type === 'call.done');
      if (isSick) throw new Error('a value the database does not like');
    };
    const { reports } = await world.exchangeWith(
      'alice',
      commands.map((command) => world.reportOf(command)),
    );
    expect(reports.map((receipt) => receipt.result).sort()).toEqual(['accepted', 'deferred']);
    expect(world.types(well)).toContain('step.enter b');
    await turns();
    expect(world.row(sick)).toMatchObject({
      status: 'failed',
      errorDetail: { errors: [{ kind: 'logic', code: 'ENGINE_DEFECT' }] },
    });
    checkStore(world.store);
  });
});

describe('what is live', () => {
  test('may be evicted at any time', async () => {
    const world = new World(
      { many: [step('each', { loop: { in: 6, iterator: 'i', spec: { mode: 'parallel' } } })] },
      { actorsMax: 1 },
    );
    const ids = [];
    for (let count = 0; count < 5; count += 1) ids.push((await world.start('many')).executionId);
    for (let round = 0; round < 20; round += 1) {
      const commands = await world.claim('alice', { max: 7 });
      await Promise.all(commands.map((command) => world.report(command, { data: command.row.iterationIndex })));
    }
    for (const id of ids)
      expect(world.row(id)).toMatchObject({ status: 'completed', result: { results: [0, 1, 2, 3, 4, 5] } });
    expect(world.server.supervisor.size).toBe(1);
    checkStore(world.store);
  });

  test('is restored from a snapshot and the rows after it', async () => {
    const world = new World({ long: [step('each', { loop: { in: 150, iterator: 'i' } })] });
    const { executionId } = await world.start('long');
    for (let index = 0; index < 150; index += 1) {
      if (index % 70 === 69) world.crash();
      const [command] = await world.claim('alice');
      await world.report(command as GrantedCommand, { data: index });
    }
    expect(world.row(executionId).result).toMatchObject({ results: Array.from({ length: 150 }, (_, n) => n) });
    expect((await world.store.load([executionId])).get(executionId)?.snapshot?.throughEventId).toBeGreaterThan(0);
  });

  test('tells its progress at a server that remembers it from before', async () => {
    const world = new World({ two: [step('a', first('b')), step('b')] });
    const { executionId } = await world.start('two');
    const behind = world.server;
    const other = world.another();
    const [command] = await world.claim('alice', {}, other);
    await world.exchangeWith('alice', [world.reportOf(command as GrantedCommand)], null, other);
    expect(await behind.executions.insight(world.row(executionId))).toMatchObject({
      progress: 50,
      currentStep: 'b',
      completedSteps: ['a'],
    });
  });

  test('tells its progress and variables', async () => {
    const world = new World(
      { two: [step('a', { set: { 'ctx.x': '{{ output.data }}' }, ...first('b') }), step('b')] },
      { limits: { ...LIMITS, inlineMaxBytes: 100 } },
    );
    const { executionId } = await world.start('two', { workload: { w: 1 } });
    const [command] = await world.claim('alice');
    await world.report(command as GrantedCommand, { data: 'y'.repeat(300) });
    expect(await world.server.executions.insight(world.row(executionId))).toMatchObject({
      progress: 50,
      currentStep: 'b',
      completedSteps: ['a'],
      failedSteps: [],
      variables: { w: 1, x: 'y'.repeat(300) },
    });
    await expect(world.server.executions.insight({ executionId: 5, lastEventId: 1 })).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  test('shows what no flush has written yet, and is not harmed by being looked at', async () => {
    const grown = step('a', { set: { 'ctx.x': '{{ (ctx.x or "") ~ output.data }}' }, ...first('a') });
    const world = new World({ again: [grown] }, { limits: { ...LIMITS, inlineMaxBytes: 100 } });
    const { executionId } = await world.start('again');
    const text = 'y'.repeat(300);
    for (let round = 1; round <= 3; round += 1) {
      let seen: Promise<unknown> = Promise.resolve();
      world.store.hooks.beforeCommit = (flush) => {
        if (flush.results.length === 0) return undefined;
        seen = world.server.executions.insight(world.row(executionId));
        return seen.then(
          () => {},
          () => {},
        );
      };
      const [command] = await world.claim('alice');
      await world.report(command as GrantedCommand, { data: text });
      expect(await seen).toMatchObject({ variables: { x: text.repeat(round) } });
    }
    expect(world.row(executionId).status).toBe('running');
  });
});

/** What follows a commit in a transaction of its own comes a few turns of the event loop later. */
async function turns(): Promise<void> {
  for (let count = 0; count < 30; count += 1) await new Promise((resolve) => setImmediate(resolve));
}

test('who stops following twice leaves those who came in between their news', async () => {
  const world = new World(ONE);
  const { executionId } = await world.start('one');
  const { executions } = world.server;
  const leave = executions.follow(executionId, () => {});
  leave();
  const heard: string[] = [];
  executions.follow(executionId, (_last, status) => heard.push(status));
  leave();
  await executions.cancel(executionId, by);
  expect(heard).toContain('cancelled');
});
