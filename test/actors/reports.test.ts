import { beforeEach, describe, expect, test } from 'vitest';
import { UnavailableError } from '../../actors/ports.ts';
import type { GrantedCommand } from '../../actors/services.ts';
import { checkStore } from '../support/invariants.ts';
import { arc, every, first, step } from '../support/playbooks.ts';
import { World } from '../support/world.ts';

const WAIT = { tool: { kind: 'playbook', path: 'child', wait: true, timeout: '90' } };

describe('a report', () => {
  let world: World;
  let id: number;
  let command: GrantedCommand;

  beforeEach(async () => {
    world = new World({ two: [step('a', first('b')), step('b')], one: [step('only')] });
    id = (await world.start('two')).executionId;
    command = await claimed(world, 'alice');
  });

  test('of the present claim is written in its canonical rows, with the turn that follows', async () => {
    const receipt = await world.report(command, {
      data: { n: 1 },
      durationMs: 7,
      tasks: { t: { status: 'ok' } },
      warnings: ['w'],
      log: { stdout: 'hi' },
    });
    expect(receipt).toMatchObject({
      result: 'accepted',
      eventIds: [5, 6, 7, 8],
      commandsGenerated: 1,
      executionStatus: 'running',
    });
    expect(world.types(id).slice(4)).toEqual([
      'command.started a',
      'call.done a',
      'step.exit a',
      'command.completed a',
      'step.enter b',
      'command.issued b',
    ]);
    const [, call, exit, closing] = world.store.log(id).slice(4);
    expect(call).toMatchObject({
      status: 'completed',
      duration: 7,
      parentEventId: 3,
      reportSeq: 1,
      result: { status: 'completed', context: { data: { n: 1 } } },
      meta: { tasks: { t: { status: 'ok' } }, warnings: ['w'] },
      context: { log: { stdout: 'hi' } },
    });
    expect(exit).toMatchObject({ context: { status: 'completed', activation: 1 }, closes: false });
    expect(closing).toMatchObject({ closes: true, attempt: 1, workerId: 'alice' });
    expect(world.command(id, 'a@1')).toMatchObject({ status: 'COMPLETED', attempt: 1, error: null });
  });

  test('of the claim of a cursor does not end the step', async () => {
    const cursor = { kind: 'postgres', auth: 'db', claim: 'select 1' };
    const loop = { cursor, iterator: 'row', spec: { mode: 'cursor' } };
    const drains = new World({ drain: [step('each', { loop })] });
    const run = (await drains.start('drain')).executionId;
    for (const data of [{ rows: [{ id: 1 }] }, null, { rows: [] }]) {
      await drains.report(await claimed(drains, 'alice'), { data });
    }
    expect(drains.types(run).filter((type) => /^(step|loop)/.test(type))).toEqual([
      'step.enter each',
      'loop.done each',
      'step.exit each',
    ]);
  });

  test('of a failure says what went wrong, with its data', async () => {
    await world.report(command, {
      outcome: 'error',
      error: { kind: 'auth', code: 'HTTP_401', message: 'no' },
      data: { body: 1 },
      failedTask: 't',
    });
    expect(world.row(id)).toMatchObject({
      status: 'failed',
      error: 'Failed steps: a: no',
      errorDetail: { errors: [{ kind: 'auth', task: 't' }] },
    });
    expect(world.command(id, 'a@1')).toMatchObject({ status: 'FAILED', error: 'no' });
  });

  test('of a failure whose data the worker stored apart refers to them', async () => {
    const guard = "{{ output.status == 'error' and output.data.total == 3 }}";
    const own = new World({ own: [step('a', first(arc('b', guard))), step('b')] });
    const run = (await own.start('own')).executionId;
    const ref = `callboard://execution/${run}/result/a/99`;
    const reference = { ref, store: 'db', bytes: 99_999, sha256: 'x' };
    const error = { kind: 'server_error', code: 'HTTP_503', message: 'busy' };
    const summary = { _ref: ref, total: 3 };
    await own.report(await claimed(own, 'alice'), { outcome: 'error', error, reference, summary, failedTask: 't' });
    expect(own.store.log(run).find(({ type }) => type === 'call.error')?.result).toEqual({
      status: 'failed',
      context: { ...summary, error, failed_task: 't' },
      reference,
    });
    expect(own.types(run)).toContain('step.enter b');
  });

  test('without a reason still has one', async () => {
    await world.report(command, { outcome: 'error' });
    expect(world.row(id).error).toContain('the command failed without a reason');
  });

  test('of a command that its worker stopped fails the step', async () => {
    await world.report(command, { outcome: 'cancelled' });
    expect(world.row(id).errorDetail).toMatchObject({ errors: [{ code: 'CANCELLED' }] });
  });

  test('sent again has the answer of the first time and writes nothing', async () => {
    const report = world.reportOf(command);
    const {
      reports: [once],
    } = await world.exchangeWith('alice', [report]);
    const before = world.types(id);
    const {
      reports: [again],
    } = await world.exchangeWith('alice', [report]);
    expect(again).toMatchObject({ result: 'duplicate', eventIds: once?.eventIds });
    expect(world.types(id)).toEqual(before);
  });

  test('sent twice in one exchange, or under another id, is stored once', async () => {
    const report = world.reportOf(command);
    const { reports } = await world.exchangeWith('alice', [report, report, { ...report, reportId: 'other' }]);
    expect(reports.map((each) => each.result)).toEqual(['accepted', 'duplicate', 'duplicate']);
    checkStore(world.store);
  });

  test('of an outrun attempt is kept as stale and decides nothing', async () => {
    world.clock.advance(200_000);
    const [again] = await claimAgain(world, 'bob');
    expect(again?.row).toMatchObject({ attempt: 2, workerId: 'bob' });
    const receipt = await world.report(command, { data: 'old' });
    expect(receipt.result).toBe('stale');
    expect(
      world.store
        .log(id)
        .filter((event) => event.stale)
        .map((event) => event.type),
    ).toEqual(['command.started', 'call.done', 'step.exit', 'command.completed']);
    expect((await world.report(again ?? command, { data: 'new' })).result).toBe('accepted');
    checkStore(world.store);
  });

  test('for a run that has ended is kept as late and moves only the head', async () => {
    await world.server.executions.cancel(id, { reason: 'enough', cascade: true, by: 'api' });
    const before = world.row(id);
    const receipt = await world.report(command, { data: 1 });
    expect(receipt).toMatchObject({ result: 'late', executionStatus: 'cancelled' });
    const after = world.row(id);
    expect(after).toEqual({ ...before, lastEventId: after.lastEventId, handledThrough: after.handledThrough });
    expect(after.lastEventId).toBe(before.lastEventId + receipt.eventIds.length);
    checkStore(world.store);
  });

  test('of a command nobody knows, of another worker, of an attempt to come, or of another execution is unknown', async () => {
    const other = (await world.start('one')).executionId;
    const cases = [
      world.reportOf(command, {}, { commandId: 99_999 }),
      world.reportOf(command, {}, { attempt: 2 }),
      world.reportOf(command, {}, { executionId: other }),
      world.reportOf(command, {}, { executionId: 77 }),
    ];
    const { reports } = await world.exchangeWith('alice', cases);
    expect(reports.map((each) => each.result)).toEqual(['unknown', 'unknown', 'unknown', 'unknown']);
    const {
      reports: [foreign],
    } = await world.exchangeWith('bob', [world.reportOf(command)]);
    expect(foreign?.result).toBe('unknown');
    expect(world.types(id)).toHaveLength(4);
  });

  test('that is malformed is invalid and leaves the others alone', async () => {
    const { reports } = await world.exchangeWith('alice', [
      world.reportOf(command, {}, { outcome: null }),
      world.reportOf(command),
    ]);
    expect(reports.map((each) => each.result)).toEqual(['invalid', 'accepted']);
  });

  test('goes on where an earlier attempt stopped, and the first outcome counts', async () => {
    const { commandId } = command.row;
    for (const type of ['command.started', 'call.done', 'step.exit']) {
      await world.server.executions.recordEvent(
        world.eventOf(id, type, {
          commandId,
          workerId: 'alice',
          payload: type === 'call.done' ? { result: 'first' } : {},
        }),
      );
    }
    world.clock.advance(200_000);
    const [again] = await claimAgain(world, 'bob');
    const receipt = await world.report(again ?? command, {
      outcome: 'error',
      error: { kind: 'x', code: null, message: 'second' },
    });
    expect(receipt).toMatchObject({ result: 'accepted', eventIds: [expect.any(Number)] });
    expect(world.command(id, 'a@1')).toMatchObject({ status: 'COMPLETED', error: null });
    expect((await claimed(world, 'alice')).row.context).toBeTruthy();
    expect(world.types(id)).toContain('step.enter b');
    checkStore(world.store);
  });

  test('may be a list of events', async () => {
    const event = (type: string, payload = {}) => ({ ...world.eventOf(id, type), payload });
    const report = world.reportOf(
      command,
      {},
      {
        outcome: null,
        events: [event('command.started'), event('call.done', { result: 3 }), event('command.completed')],
      },
    );
    const {
      reports: [receipt],
    } = await world.exchangeWith('alice', [report]);
    expect(receipt).toMatchObject({ result: 'accepted', commandsGenerated: 1 });
    const {
      reports: [again],
    } = await world.exchangeWith('alice', [report]);
    expect(again).toMatchObject({ result: 'duplicate', eventIds: receipt?.eventIds });
  });

  test.each([
    ['of another worker', 'bob', {}, { type: 'call.done' }, 'unknown'],
    ['of an attempt that was never granted', 'alice', { attempt: 2 }, { type: 'call.done' }, 'unknown'],
    ['with an event that only the server writes', 'alice', {}, { type: 'workflow.completed' }, 'invalid'],
    ['with an event of another command', 'alice', {}, { type: 'call.done', commandId: 4_242 }, 'invalid'],
  ])('that is a list of events %s leaves nothing behind', async (_name, worker, change, event, result) => {
    const events = [world.eventOf(id, 'note.taken'), world.eventOf(id, 'note.taken', event)];
    const before = world.types(id);
    const {
      reports: [receipt],
    } = await world.exchangeWith(worker, [world.reportOf(command, {}, { outcome: null, events, ...change })]);
    expect(receipt).toMatchObject({ result, eventIds: [] });
    expect(world.types(id)).toEqual(before);
  });

  test('is not acknowledged while the database is away, and comes again with the same ids', async () => {
    const report = world.reportOf(command, { data: 1 });
    for (const hook of ['beforeCommit', 'afterCommit'] as const) {
      world.store.hooks[hook] = () => {
        world.store.hooks[hook] = () => {};
        throw new UnavailableError();
      };
      await expect(world.exchangeWith('alice', [report])).rejects.toBeInstanceOf(UnavailableError);
    }
    const {
      reports: [receipt],
    } = await world.exchangeWith('alice', [report]);
    expect(receipt).toMatchObject({ result: 'duplicate', eventIds: [5, 6, 7, 8] });
    checkStore(world.store);
  });

  test('to a server that has not heard what another one granted is still accepted', async () => {
    const behind = world.another();
    await behind.supervisor.actor(id);
    await world.report(command);
    const next = await claimed(world, 'alice');
    const {
      reports: [receipt],
    } = await world.exchangeWith('alice', [world.reportOf(next)], null, behind);
    expect(receipt).toMatchObject({ result: 'accepted', executionStatus: 'completed' });
    checkStore(world.store);
  });

  test('that comes to two servers at once is stored once', async () => {
    const other = world.another();
    await other.supervisor.actor(id);
    world.clock.advance(200_000);
    const [again] = await claimAgain(world, 'bob');
    for (const granted of [command, again ?? command]) {
      const report = world.reportOf(granted);
      const worker = granted.row.workerId ?? '';
      const answers = await Promise.all(
        [world.server, other, world.server, other].map((server) => world.exchangeWith(worker, [report], null, server)),
      );
      const results = answers.map(({ reports }) => reports[0]?.result).sort();
      expect(results).toEqual(
        granted === command
          ? ['duplicate', 'duplicate', 'duplicate', 'stale']
          : ['accepted', 'duplicate', 'duplicate', 'duplicate'],
      );
    }
    expect(world.lines.filter((line) => line.level === 'error')).toEqual([]);
    checkStore(world.store);
  });

  test('with a large value keeps it apart, and the turn can read it', async () => {
    const big = new World({ big: [step('a', first(arc('b', '{{ a.rows[2999].id == 2999 }}'))), step('b')] });
    const run = (await big.start('big')).executionId;
    const rows = Array.from({ length: 3_000 }, (_, n) => ({ id: n, text: 'some text' }));
    expect((await big.report(await claimed(big, 'alice'), { data: { rows } })).result).toBe('accepted');
    expect(big.types(run)).toContain('step.enter b');
    expect(big.store.log(run)[5]?.result?.reference?.ref).toMatch(/^callboard:/);
  });
});

describe('a parked command', () => {
  let world: World;
  let parent: number;
  let command: GrantedCommand;

  beforeEach(async () => {
    world = new World({
      parent: [step('w', { ...WAIT, ...first('after') }), step('after', { tool: { kind: 'noop', result: '{{ w }}' } })],
      child: [step('c')],
    });
    parent = (await world.start('parent')).executionId;
    command = await claimed(world, 'alice');
  });

  const startChild = async () =>
    (
      await world.start('child', {
        parentExecutionId: parent,
        parentCommandId: command.row.commandId,
        idempotencyKey: `${command.row.commandId}:w:1`,
      })
    ).executionId;
  const park = (child: number) => world.report(command, { outcome: 'parked', childExecutionId: child });

  test('waits for its child and goes on with its result', async () => {
    const child = await startChild();
    expect((await park(child)).result).toBe('accepted');
    expect(world.command(parent, 'w@1')).toMatchObject({ status: 'RUNNING', parkedOn: child });
    await world.report(await claimed(world, 'bob'), { data: { score: 7 } });
    await ended(world, child);
    const next = await eventually(() => claimed(world, 'bob'));
    expect(next.row.stepName).toBe('after');
    expect(next.row.context).toMatchObject({
      render_context: { steps: { w: { value: { score: 7, child_status: 'completed', execution_id: String(child) } } } },
    });
    expect(world.command(parent, 'w@1')).toMatchObject({ status: 'COMPLETED', parkedOn: null });
    checkStore(world.store);
  });

  test('tells of its task what a worker that waits would', async () => {
    const told: unknown[] = [];
    for (const outcome of ['ok', 'error'] as const) {
      const asking = new World({
        parent: [step('w', { ...WAIT, ...first(arc('after', 'event.name != ""')) }), step('after')],
        child: [step('c')],
      });
      const { executionId } = await asking.start('parent');
      const waiting = await claimed(asking, 'alice');
      const below = (
        await asking.start('child', { parentExecutionId: executionId, parentCommandId: waiting.row.commandId })
      ).executionId;
      await asking.report(waiting, { outcome: 'parked', childExecutionId: below });
      asking.clock.advance(3_000);
      await asking.report(await claimed(asking, 'bob'), { outcome });
      await ended(asking, below);
      await eventually(() => claimed(asking, 'bob'));
      const call = asking.store.log(executionId).find(({ type }) => type === 'call.done' || type === 'call.error');
      told.push({ duration: call?.duration, tasks: call?.meta['tasks'], failed: call?.meta['failed_task'] });
    }
    const tried = (status: string) => ({ w_task: { status, attempts: 1, duration_ms: 3_000 } });
    expect(told).toEqual([
      { duration: 3_000, tasks: tried('ok'), failed: undefined },
      { duration: 3_000, tasks: tried('error'), failed: 'w_task' },
    ]);
  });

  test('is settled also when the child ended before it parked', async () => {
    const child = await startChild();
    await world.report(await claimed(world, 'bob'), { data: 1 });
    await park(child);
    await eventually(() => claimed(world, 'bob'));
    checkStore(world.store);
  });

  test('gets the value of a step of a child that another server has gone on with', async () => {
    const tool = { ...WAIT.tool, return_step: 'c' };
    const two = new World({
      parent: [step('w', { tool, ...first('after') }), step('after', { tool: { kind: 'noop', result: '{{ w }}' } })],
      child: [step('c', first('d')), step('d')],
    });
    const other = two.another();
    const { executionId } = await two.start('parent');
    const waiting = await claimed(two, 'alice');
    const child = await two.start('child', {
      parentExecutionId: executionId,
      parentCommandId: waiting.row.commandId,
    });
    for (const data of [{ kept: 1 }, { last: 2 }]) {
      const [command] = await two.claim('bob', {}, other);
      if (command === undefined) throw new Error('nothing was granted');
      await two.exchangeWith('bob', [two.reportOf(command, { data })], null, other);
    }
    await two.report(waiting, { outcome: 'parked', childExecutionId: child.executionId });
    const next = await eventually(() => claimed(two, 'bob'));
    expect(next.row.context).toMatchObject({
      render_context: { steps: { w: { value: { kept: 1, child_status: 'completed' } } } },
    });
    checkStore(two.store);
  });

  test('fails with its child', async () => {
    const child = await startChild();
    await park(child);
    await world.report(await claimed(world, 'bob'), {
      outcome: 'error',
      error: { kind: 'x', code: null, message: 'bad' },
    });
    const row = await ended(world, parent);
    expect(row.error).toContain(`child playbook child (${child}): Failed steps: c: bad`);
  });

  test('is settled after a crash that lost the end of the child', async () => {
    const child = await startChild();
    await park(child);
    const lost = await claimed(world, 'bob');
    // The old process dies with the commit that ends the child.
    const dead = world.server;
    world.crash();
    dead.supervisor.evict(parent);
    await world.report(lost, { data: 1 });
    await world.sweep();
    await eventually(() => claimed(world, 'alice'));
    expect(world.store.log(parent).filter((event) => event.type === 'call.done')).toHaveLength(1);
  });

  test('fails when it has waited too long, and the child keeps running', async () => {
    const child = await startChild();
    await park(child);
    world.clock.advance(89_000);
    await world.sweep();
    expect(world.row(parent).status).toBe('running');
    world.clock.advance(2_000);
    await world.sweep();
    expect(world.row(parent)).toMatchObject({
      status: 'failed',
      errorDetail: {
        errors: [{ kind: 'timeout', code: 'CHILD_TIMEOUT', message: expect.stringContaining('after 90 s') }],
      },
    });
    expect(world.row(child).status).toBe('running');
  });

  test('fails with the time of its step where that is over first', async () => {
    const hurried = new World({
      parent: [step('w', { ...WAIT, spec: { timeout: 20 }, ...first(arc('after', 'error')) }), step('after')],
      child: [step('c')],
    });
    const { executionId } = await hurried.start('parent');
    const waiting = await claimed(hurried, 'alice');
    hurried.clock.advance(5_000);
    const started = await hurried.start('child', { parentExecutionId: executionId });
    await hurried.report(waiting, { outcome: 'parked', childExecutionId: started.executionId });
    hurried.clock.advance(14_000);
    await hurried.sweep();
    expect(hurried.command(executionId, 'w@1').status).toBe('RUNNING');
    hurried.clock.advance(2_000);
    await hurried.sweep();
    const call = hurried.store.log(executionId).find((event) => event.type === 'call.error');
    expect(call?.result?.context).toMatchObject({
      error: { kind: 'timeout', code: 'STEP_TIMEOUT', message: "step 'w' did not end within 20 s", retryable: false },
      failed_task: 'w_task',
    });
    expect(call?.meta).toMatchObject({ failed_task: 'w_task', tasks: { w_task: { status: 'error', attempts: 1 } } });
    expect(hurried.types(executionId).at(-1)).toBe('command.issued after');
    expect(hurried.row(started.executionId).status).toBe('running');
  });

  test('cannot be claimed, and may be reported again', async () => {
    const child = await startChild();
    await park(child);
    await expect(world.server.commands.claim(command.row.commandId, 'bob', null)).rejects.toMatchObject({
      code: 'active_claim',
    });
    expect((await park(child)).result).toBe('duplicate');
  });

  test('may be closed by the worker that parked it, and the end of the child is then too late', async () => {
    const child = await startChild();
    await park(child);
    expect((await world.report(command, { data: 'by hand' })).result).toBe('accepted');
    expect(world.command(parent, 'w@1').status).toBe('COMPLETED');
    const open = await claimed(world, 'bob', { max: 1 });
    await world.report(open, { data: 1 });
    await world.sweep();
    expect(world.store.log(parent).filter((event) => event.type === 'call.done')).toHaveLength(1);
    checkStore(world.store);
  });

  test('whose run fails takes its child and grandchildren with it', async () => {
    const failing = new World({
      parent: [step('s', every('w', 'x')), step('w', WAIT), step('x')],
      child: [step('c', WAIT)],
    });
    const top = (await failing.start('parent')).executionId;
    await failing.report(await claimed(failing, 'alice'));
    const [w, x] = await failing.claim('alice');
    const middle = (await failing.start('child', { parentExecutionId: top, parentCommandId: w?.row.commandId ?? 0 }))
      .executionId;
    await failing.report(w ?? command, { outcome: 'parked', childExecutionId: middle });
    const below = await claimed(failing, 'alice');
    const bottom = (await failing.start('child', { parentExecutionId: middle, parentCommandId: below.row.commandId }))
      .executionId;
    await failing.report(below, { outcome: 'parked', childExecutionId: bottom });
    await failing.report(x ?? command, { outcome: 'error' });
    expect(failing.row(top).status).toBe('failed');
    expect((await ended(failing, middle)).status).toBe('cancelled');
    expect((await ended(failing, bottom)).status).toBe('cancelled');
    checkStore(failing.store);
  });

  test('in a run that has failed before ends it, and its child', async () => {
    const failing = new World({
      parent: [step('s', every('w', 'x')), step('w', WAIT), step('x')],
      child: [step('c')],
    });
    const top = (await failing.start('parent')).executionId;
    await failing.report(await claimed(failing, 'alice'));
    const [w, x] = await failing.claim('alice');
    const below = (await failing.start('child', { parentExecutionId: top, parentCommandId: w?.row.commandId ?? 0 }))
      .executionId;
    await failing.report(x ?? command, { outcome: 'error' });
    expect(failing.row(top).status).toBe('running');
    await failing.report(w ?? command, { outcome: 'parked', childExecutionId: below });
    expect(failing.row(top).status).toBe('failed');
    expect(failing.command(top, 'w@1').status).toBe('CANCELLED');
    expect((await ended(failing, below)).status).toBe('cancelled');
    checkStore(failing.store);
  });
});

async function claimed(world: World, worker: string, change = {}): Promise<GrantedCommand> {
  const [command] = await world.claim(worker, change);
  if (command === undefined) throw new Error('nothing to claim');
  return command;
}

async function claimAgain(world: World, worker: string): Promise<readonly GrantedCommand[]> {
  await world.sweep();
  return world.claim(worker);
}

async function ended(world: World, executionId: number) {
  return world.server.executions.whenEnded(executionId, AbortSignal.timeout(5_000));
}

/** What follows a commit in a transaction of its own comes a few turns of the event loop later. */
async function eventually<T>(look: () => Promise<T>): Promise<T> {
  for (let turn = 0; ; turn += 1) {
    try {
      return await look();
    } catch (error) {
      if (turn > 50) throw error;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}
