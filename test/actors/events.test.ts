import { beforeEach, describe, expect, test } from 'vitest';
import type { EventInput } from '../../actors/services.ts';
import { Turnstile } from '../../actors/turnstile.ts';
import { checkStore } from '../support/invariants.ts';
import { first, step } from '../support/playbooks.ts';
import { World } from '../support/world.ts';

describe('a single event', () => {
  let world: World;
  let id: number;
  let commandId: number;

  beforeEach(async () => {
    world = new World({ two: [step('a', first('b')), step('b')] });
    id = (await world.start('two')).executionId;
    commandId = world.command(id, 'a@1').commandId;
    await world.claim('alice');
  });

  const say = (type: string, change: Partial<EventInput> = {}, server = world.server) =>
    server.executions.recordEvent(world.eventOf(id, type, { commandId, workerId: 'alice', ...change }));

  test('of each settling type drives the run as a report does', async () => {
    expect(await say('command.started')).toMatchObject({ eventId: 5, duplicate: false, executionStatus: 'running' });
    expect(world.command(id, 'a@1').status).toBe('RUNNING');
    await say('call.done', { payload: { result: { n: 1 }, duration_ms: 3 } });
    await say('step.exit');
    expect(await say('command.completed')).toMatchObject({ commandsGenerated: 1 });
    expect(world.store.log(id)[5]).toMatchObject({
      type: 'call.done',
      duration: 3,
      result: { context: { data: { n: 1 } } },
    });
    expect(world.command(id, 'a@1').status).toBe('COMPLETED');
    checkStore(world.store);
  });

  test.each(['call.done', 'call.error', 'step.exit', 'command.started', 'command.completed', 'command.failed'])(
    'of type %s said twice has the answer of the first time',
    async (type) => {
      const once = await say(type);
      const before = world.types(id);
      expect(await say(type)).toMatchObject({ eventId: once.eventId, duplicate: true });
      expect(world.types(id)).toEqual(before);
    },
  );

  test.each(['command.started', 'call.done', 'step.exit', 'command.completed', 'note.taken'])(
    'of type %s said many times at once, to two servers, is stored once',
    async (type) => {
      const other = world.another();
      await other.supervisor.actor(id);
      const answers = await Promise.all(
        [0, 1, 2, 3, 4, 5].map((n) => say(type, { reportId: 'same' }, n % 2 === 0 ? other : world.server)),
      );
      expect(new Set(answers.map((answer) => answer.eventId)).size).toBe(1);
      expect(answers.filter((answer) => !answer.duplicate)).toHaveLength(1);
      expect(world.lines.filter((line) => line.level === 'error')).toEqual([]);
      checkStore(world.store);
    },
  );

  test('that closes a command drops its counterpart', async () => {
    const done = await say('command.completed');
    expect(await say('command.failed')).toMatchObject({ eventId: done.eventId, duplicate: true });
  });

  test('of a worker that lost its claim is stale, also when it does not say which attempt it means', async () => {
    world.clock.advance(200_000);
    await world.sweep();
    await world.claim('bob');
    expect(await say('call.done', { payload: { result: 'old' } })).toMatchObject({ stale: true });
    expect(await say('command.completed', { attempt: 1 })).toMatchObject({ stale: true });
    expect(world.row(id).status).toBe('running');
    await say('call.done', { workerId: 'bob', payload: { result: 'new' } });
    await say('command.completed', { workerId: 'bob' });
    expect(world.types(id)).toContain('step.enter b');
    checkStore(world.store);
  });

  test('for what has ended is late', async () => {
    await world.server.executions.cancel(id, { reason: 'r', cascade: false, by: 'api' });
    expect(await say('call.done')).toMatchObject({ late: true, executionStatus: 'cancelled' });
    expect(await say('playbook.completed', { commandId: null })).toMatchObject({ late: true });
    checkStore(world.store);
  });

  test('that only a server writes is refused', async () => {
    for (const type of [
      'execution.started',
      'workflow.completed',
      'command.issued',
      'command.claimed',
      'loop.done',
      'ctx.updated',
      'step.skipped',
      'batch.accepted',
    ]) {
      await expect(say(type)).rejects.toMatchObject({ code: 'validation_error' });
    }
  });

  test('of an attempt that was never granted leaves nothing behind', async () => {
    for (const type of ['call.done', 'command.completed', 'note.taken']) {
      await expect(say(type, { attempt: 2 })).rejects.toMatchObject({ code: 'not_found' });
    }
    expect(world.types(id)).toHaveLength(4);
  });

  test('by which an older worker tells that a workflow is ready is information', async () => {
    expect(await say('workflow.initialized', { commandId: null, step: 'workflow' })).toMatchObject({ eventId: 5 });
    expect(world.row(id).status).toBe('running');
    checkStore(world.store);
  });

  test('that the server does not store is answered with what stands for it', async () => {
    expect(await say('command.heartbeat')).toMatchObject({ eventId: 3 });
    expect(await say('step.enter', { step: 'a' })).toMatchObject({ eventId: 2 });
    expect(await say('step.enter')).toMatchObject({ eventId: 2 });
    expect(await say('step.enter', { step: 'a', commandId: null })).toMatchObject({ eventId: 2 });
    expect(world.types(id)).toHaveLength(4);
  });

  test('of any other type is kept as information and changes nothing', async () => {
    const { lastEventId: _, ...before } = world.row(id);
    expect(
      await say('note.taken', {
        commandId: null,
        step: 'a',
        payload: { x: 1 },
        meta: { y: 2 },
        actionable: false,
        producerTime: 'then',
      }),
    ).toMatchObject({ eventId: 5 });
    expect(world.store.log(id)[4]).toMatchObject({
      type: 'note.taken',
      nodeName: 'a',
      context: { x: 1 },
      meta: { y: 2, actionable: false, producer_time: 'then' },
    });
    expect(world.row(id)).toMatchObject({ status: before.status, openCommands: 1 });
    await expect(say('note.taken', { commandId: null })).rejects.toMatchObject({ code: 'validation_error' });
  });

  test('of a type that is not known has no value under the names of secrets', async () => {
    const payload = {
      note: 'n',
      Authorization: 'Bearer canary',
      nested: [{ api_key: 'canary', deep: { PASSWORD: { of: 'canary' }, token: null, tokens: 7 } }],
      result: { cookie: 'canary', kept: 1 },
      error: { message: 'm', client_secret: 'canary' },
    };
    await say('note.taken', { payload, meta: { refresh_token: 'canary', kept: true } });
    const row = world.store.log(id).at(-1);
    expect(JSON.stringify(row)).not.toContain('canary');
    expect(row).toMatchObject({
      type: 'note.taken',
      context: {
        note: 'n',
        Authorization: '***',
        nested: [{ api_key: '***', deep: { PASSWORD: '***', token: null, tokens: 7 } }],
      },
      result: { context: { data: { cookie: '***', kept: 1 } } },
      meta: { refresh_token: '***', kept: true },
    });
    await say('call.done', { payload: { result: { token: 'a value like any other' } } });
    expect(world.store.log(id).at(-1)).toMatchObject({
      result: { context: { data: { token: 'a value like any other' } } },
    });
  });

  test('with a payload too large for the log has it stored apart, without the values of secrets', async () => {
    const payload = { note: 'n', lines: ['x'.repeat(70_000)], password: 'canary' };
    await say('note.taken', { payload });
    const context = world.store.log(id).at(-1)?.context ?? {};
    expect(context).toMatchObject({
      note: 'n',
      _store: 'db',
      _ref: expect.stringMatching(/^callboard:\/\/execution\//),
    });
    expect(JSON.stringify(context).length).toBeLessThan(5_000);
    const { lines } = payload;
    expect(await world.store.payload(String(context['_ref']))).toEqual({ note: 'n', lines, password: '***' });
    // One byte less than too much stays where it is.
    const small = { text: 'x'.repeat(65_536 - '{"text":""}'.length) };
    await say('note.taken', { payload: small, reportId: 'small' });
    expect(world.store.log(id).at(-1)?.context).toEqual(small);
    checkStore(world.store);
  });

  test('may be of a type that objects inherit', async () => {
    await say('constructor', { payload: { a: 1 } });
    expect(world.store.log(id).at(-1)).toMatchObject({ type: 'constructor', status: 'completed', context: { a: 1 } });
  });

  test('for an unknown run or command is refused', async () => {
    await expect(
      world.server.executions.recordEvent(world.eventOf(5, 'note.taken', { step: 'a' })),
    ).rejects.toMatchObject({ code: 'not_found' });
    await expect(say('call.done', { commandId: 5 })).rejects.toMatchObject({ code: 'not_found' });
  });

  test.each(['playbook.completed', 'playbook.failed', 'execution.cancelled'])(
    'of type %s ends the run, closing what is open',
    async (type) => {
      await say(type, { commandId: null, payload: { reason: 'by hand', result: 4 } });
      expect(world.row(id)).toMatchObject({ status: type.slice(type.indexOf('.') + 1), openCommands: 0 });
      expect(world.command(id, 'a@1')).toMatchObject({ status: 'CANCELLED' });
      expect(world.types(id).at(-1)).toBe('command.cancelled a');
      checkStore(world.store);
    },
  );

  test('of a command that nobody claimed settles it and is no claim', async () => {
    await say('command.started');
    await say('command.completed');
    const next = world.command(id, 'b@1').commandId;
    await world.server.executions.recordEvent(world.eventOf(id, 'command.started', { commandId: next }));
    expect(world.command(id, 'b@1').status).toBe('PENDING');
    await world.server.executions.recordEvent(
      world.eventOf(id, 'command.completed', { commandId: next, payload: { result: 1 } }),
    );
    expect(world.row(id).status).toBe('completed');
    checkStore(world.store);
  });

  test('may park a command without naming a child, and its call row goes on', async () => {
    await say('command.completed', { payload: { pending_callback: true } });
    expect(world.command(id, 'a@1')).toMatchObject({ status: 'RUNNING', parkedOn: 0 });
    checkStore(world.store);
    expect(await say('call.done', { payload: { result: 'called back' } })).toMatchObject({ commandsGenerated: 1 });
    expect(world.types(id)).toContain('step.enter b');
    checkStore(world.store);
  });
});

describe('a turnstile', () => {
  test('lets one pass at a time for each key, in order, and forgets who has passed', async () => {
    const turnstile = new Turnstile();
    const seen: string[] = [];
    const gates = new Map<string, () => void>();
    const pass = (key: string, name: string) =>
      turnstile.run(key, async () => {
        seen.push(`${name} in`);
        await new Promise<void>((resolve) => gates.set(name, resolve));
        seen.push(`${name} out`);
        if (name === 'two') throw new Error('fell');
      });
    const passes = [pass('k', 'one'), pass('k', 'two'), pass('k', 'three'), pass('other', 'four')];
    for (const name of ['four', 'one', 'two', 'three']) {
      while (!gates.has(name)) await Promise.resolve();
      gates.get(name)?.();
      await Promise.resolve();
    }
    const results = await Promise.allSettled(passes);
    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
    expect(seen.filter((line) => !line.startsWith('four'))).toEqual([
      'one in',
      'one out',
      'two in',
      'two out',
      'three in',
      'three out',
    ]);
    expect(turnstile.size).toBe(0);
  });
});
