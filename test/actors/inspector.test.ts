import { expect, test } from 'vitest';
import type { InspectionService } from '../../actors/inspection.ts';
import { createInspector } from '../../actors/inspector.ts';
import { createMemoryTrail } from '../../actors/memory/memory-trail.ts';
import type { KeychainLogRow } from '../../actors/services.ts';
import type { Trail } from '../../actors/trail.ts';
import { runOf } from '../../machines/execution/take-turn.ts';
import { visibleRun } from '../../machines/execution/visible-run.ts';
import type { JsonMap } from '../../machines/json.ts';
import { applyPatch } from '../../machines/merge-patch.ts';
import { foldOrder, replayExecution } from '../../machines/replay.ts';
import { every, first, step } from '../support/playbooks.ts';
import { LIMITS } from '../support/story.ts';
import { World } from '../support/world.ts';

const PLAYBOOKS = {
  fork: [
    step('start', every('a', 'b')),
    step('a', { ...first('meet'), set: { 'ctx.x': 1 } }),
    step('b', first('meet')),
    step('meet'),
  ],
  wide: [
    step('start', { loop: { in: '{{ range(400) }}', iterator: 'n', mode: 'parallel' }, ...first('last') }),
    step('last'),
  ],
};

interface Looking {
  readonly world: World;
  readonly look: InspectionService;
  /** Rows the trail was asked for, call by call. */
  readonly read: number[];
}

function looking(records: readonly KeychainLogRow[] = [], explained = 'completed'): Looking {
  const world = new World(PLAYBOOKS);
  const read: number[] = [];
  const stored = createMemoryTrail(world.store);
  const trail: Trail = {
    ...stored,
    async rows(...given) {
      const rows = await stored.rows(...given);
      read.push(rows.length);
      return rows;
    },
  };
  const look = createInspector({
    trail,
    store: world.store,
    reads: {
      commands: async ({ executionId = 0, statuses = [] }) =>
        world.commandsOf(executionId).filter((row) => statuses.includes(row.status)),
      execution: (executionId) => world.store.execution(executionId),
    },
    keychain: {
      log: async ({ name }) => records.filter((row) => name !== null && row.cacheKey.startsWith(`${name}:`)),
    },
    batches: { find: (requestId) => world.store.batches.find([requestId]).then(([row]) => row ?? null) },
    plan: (catalogId) => world.server.supervisor.plan(catalogId),
    limits: LIMITS,
    clock: world.clock,
    explain: async () => ({ sentence: 'Because.', status: explained }),
  });
  return { world, look, read };
}

/** Reports everything there is until nothing is left, or `turns` times. */
async function run(world: World, turns = Number.POSITIVE_INFINITY): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) {
    const commands = await world.claim('alice', { max: 500 });
    if (commands.length === 0) return;
    for (const command of commands) await world.report(command, { data: { ok: true } });
  }
}

test('the state after each event is that of a replay up to it, and the present that of all', async () => {
  const { world, look } = looking();
  const { executionId } = await world.start('fork');
  await run(world);
  const order = foldOrder(world.store.log(executionId));
  for (const [index, event] of order.entries()) {
    const view = await look.execution(executionId, event.eventId);
    const replayed = replayExecution(order.slice(0, index + 1));
    expect(view.value).toEqual(replayed.snapshot.value);
    expect(view.context).toEqual(JSON.parse(JSON.stringify(visibleRun(runOf(replayed)))));
    expect(view).toMatchObject({
      at: event.eventId,
      cursor: { lastEventId: event.eventId, handledThrough: event.eventId },
    });
  }
  const last = order.at(-1)?.eventId ?? 0;
  const present = await look.execution(executionId, null);
  const { sentence: _then, ...then } = await look.execution(executionId, last);
  expect(present).toMatchObject(then);
  expect(present).toMatchObject({
    sentence: 'Because.',
    states: ['execution.completed'],
    nextEvents: [],
    isActive: false,
  });
});

test('a run that ended while it was looked at says what it waited for when its row was read', async () => {
  const { world, look } = looking([], 'completed');
  const { executionId } = await world.start('fork');
  expect(await look.execution(executionId, null)).toMatchObject({
    row: { status: 'running' },
    sentence: expect.stringMatching(/^Waiting for the outcome of command \d+ \(step 'start'\)\.$/),
  });
  const running = looking([], 'running');
  const started = await running.world.start('fork');
  expect((await running.look.execution(started.executionId, null)).sentence).toBe('Because.');
});

test('the past says what it waited for', async () => {
  const { world, look } = looking();
  const { executionId } = await world.start('fork');
  await run(world, 1);
  const at = world.store.log(executionId).find((event) => event.type === 'command.issued')?.eventId ?? 0;
  const view = await look.execution(executionId, at);
  expect(view.sentence).toMatch(/^Waiting for the outcome of command \d+ \(step 'start'\)\.$/);
  expect(view.nextEvents).toContainEqual({ type: 'command.completed', guards: ['isParking', 'isOpen'] });
});

test('beyond the log there is nothing to see, and no such execution is told', async () => {
  const { world, look } = looking();
  const { executionId } = await world.start('fork');
  await expect(look.execution(executionId, 999)).rejects.toMatchObject({ code: 'validation_error' });
  await expect(look.execution(1, null)).rejects.toMatchObject({ code: 'not_found' });
  await expect(look.trace(1, { after: 0, limit: 1, all: true })).rejects.toMatchObject({ code: 'not_found' });
});

test('the pages of a trace are one trace, whatever their size, and rebuild the present', async () => {
  const { world, look } = looking();
  const { executionId } = await world.start('fork');
  await run(world);
  const whole = await look.trace(executionId, { after: 0, limit: 5000, all: true });
  expect(whole.nextAfter).toBeNull();
  expect(whole.frames.map((frame) => frame.n)).toEqual(world.store.log(executionId).map((_, index) => index + 1));
  for (const limit of [1, 3, 7]) {
    const frames = [];
    for (let after: number | null = 0; after !== null; ) {
      const page: Awaited<ReturnType<InspectionService['trace']>> = await look.trace(executionId, {
        after,
        limit,
        all: true,
      });
      frames.push(...page.frames);
      after = page.nextAfter;
    }
    expect(frames).toEqual(whole.frames);
  }
  const shown = whole.frames.reduce(
    (context: JsonMap, frame) => applyPatch(frame.isKeyframe ? {} : context, frame.patch),
    {},
  );
  expect(shown).toEqual((await look.execution(executionId, null)).context);
  const changes = await look.trace(executionId, { after: 0, limit: 5000, all: false });
  expect(changes.frames).toEqual(whole.frames.filter((frame) => frame.changed || frame.isKeyframe));
  expect(changes.frames.length).toBeLessThan(whole.frames.length);
});

test('looking again reads on from a mark, not from the start', async () => {
  const { world, look, read } = looking();
  const { executionId } = await world.start('wide');
  await run(world);
  const length = world.store.log(executionId).length;
  expect(length).toBeGreaterThan(2000);
  await look.execution(executionId, length - 10);
  read.length = 0;
  await look.execution(executionId, length - 5);
  expect(read.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(1000);
  read.length = 0;
  await look.execution(executionId, null);
  // Snapshot and tail.
  expect(read.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(1000);
});

test('a key frame of the present is followed by the frames after it', async () => {
  const { world, look } = looking();
  const { executionId } = await world.start('fork');
  await run(world, 1);
  const frame = await look.keyframe(executionId);
  expect(frame).toMatchObject({ isKeyframe: true, status: 'running', n: world.store.log(executionId).length });
  expect((await look.trace(executionId, { after: frame.n, limit: 10, all: true })).frames).toEqual([]);
  await run(world);
  const more = await look.trace(executionId, { after: frame.n, limit: 1000, all: true });
  const shown = more.frames.reduce(
    (context, each) => applyPatch(each.isKeyframe ? {} : context, each.patch),
    frame.patch,
  );
  expect(shown).toEqual((await look.execution(executionId, null)).context);
});

test('a trial takes the turn that the execution then takes, and writes nothing', async () => {
  const { world, look } = looking();
  const { executionId } = await world.start('fork');
  await run(world, 1);
  const before = world.store.log(executionId).length;
  const command = world.command(executionId, 'a@1');
  const event = { type: 'command.completed', command_id: command.commandId, result: { ok: true } };
  const trial = await look.trial({ machine: 'execution', snapshot: null, executionId, at: null, event });
  expect(trial.changed).toBe(true);
  expect(trial.recorded.map((row) => `${row.type} ${row.nodeName}`)).toEqual([
    'command.completed a',
    'ctx.updated a',
    'ctx.updated a',
  ]);
  expect(world.store.log(executionId)).toHaveLength(before);
  const [claimed] = await world.claim();
  if (claimed === undefined) throw new Error('there is a command');
  await world.report(claimed, { data: { ok: true } });
  const decided = world.store
    .log(executionId)
    .slice(before)
    .filter((row) => row.eventId !== row.causeId);
  expect(decided.map((row) => row.type)).toEqual(trial.recorded.slice(1).map((row) => row.type));
});

test('a trial in the past knows what was claimed then', async () => {
  const { world, look } = looking();
  const { executionId } = await world.start('fork');
  await run(world);
  const issued = world.store
    .log(executionId)
    .findLast((event) => event.nodeName === 'b' && event.type === 'command.issued');
  const at = issued?.eventId ?? 0;
  const event = { type: 'command.failed', command_id: world.command(executionId, 'a@1').commandId, error: 'broken' };
  const { recorded, view } = await look.trial({ machine: 'execution', snapshot: null, executionId, at, event });
  expect(recorded.map((row) => row.type)).toContain('playbook.failed');
  expect(view.states).toEqual(['execution.failed']);
});

test('a trial of an end names the playbook, and a place beyond the log by its field of the body', async () => {
  const { world, look } = looking();
  const { executionId, path } = await world.start('fork');
  const trial = (at: number) =>
    look.trial({ machine: 'execution', snapshot: null, executionId, at, event: { type: 'execution.cancelled' } });
  expect((await trial(1)).recorded[0]).toMatchObject({ type: 'execution.cancelled', nodeName: path });
  await expect(trial(9999)).rejects.toThrow(/^body\.at: the log of/);
});

test('what does not fit a chart is told without words of its code', async () => {
  const { look } = looking();
  const trial = (machine: string, value: string, event: JsonMap) =>
    look.trial({ machine, snapshot: { value, context: {} }, executionId: null, at: null, event });
  const misfit = 'body: the snapshot or the event does not fit the chart: ';
  await expect(trial('command', 'ODD', { type: 'x' })).rejects.toThrow(`${misfit}State 'ODD' does not exist`);
  await expect(trial('keychain', 'absent', { type: 'entry.stored' })).rejects.toThrow(
    `${misfit}Unable to evaluate guard 'isStoredLive' in transition for event 'entry.stored' in state node 'keychain.absent'`,
  );
  await expect(trial('keychain', 'absent', { type: 'entry.stored' })).rejects.not.toThrow(/undefined/);
});

test('a trial of a snapshot names what would be decided, and its answer can be tried on', async () => {
  const { look } = looking();
  const trial = (machine: string, snapshot: { value: string | JsonMap; context: JsonMap } | null, event: JsonMap) =>
    look.trial({ machine, snapshot, executionId: null, at: null, event });
  const started = await trial('execution', null, { type: 'execution.started' });
  expect(started).toMatchObject({ changed: true, decisions: ['decideEntry'], recorded: [] });
  const { value, context } = started.view;
  const next = await trial('execution', { value: value as JsonMap, context }, { type: 'step.enter', step: 'a' });
  expect(next.view.context).toMatchObject({ active: ['a'] });
  const claim = await trial(
    'command',
    { value: 'PENDING', context: {} },
    { type: 'command.claimed', attempt: 1, worker_id: 'w' },
  );
  expect(claim.view).toMatchObject({ value: 'CLAIMED', context: { attempt: 1, worker_id: 'w' } });
  const done = await trial('command', { value: 'COMPLETED', context: {} }, { type: 'command.failed' });
  expect(done).toMatchObject({ changed: false, view: { nextEvents: [] } });
  const batch = await trial('batch', null, { type: 'batch.processing' });
  expect(batch.view.value).toBe('processing');
  await expect(trial('command', { value: 'ODD', context: {} }, { type: 'x' })).rejects.toMatchObject({
    code: 'validation_error',
  });
  await expect(
    trial('keychain', { value: 'live', context: { expires_at: 'odd' } }, { type: 'entry.read', at: 'odd' }),
  ).rejects.toMatchObject({
    code: 'validation_error',
  });
  await expect(trial('nothing', null, { type: 'x' })).rejects.toMatchObject({ code: 'not_found' });
});

test('a command is folded from its own rows', async () => {
  const { world, look } = looking();
  const { executionId } = await world.start('fork');
  const { commandId } = world.command(executionId, 'start@1');
  expect((await look.command(commandId)).states).toEqual(['command.PENDING']);
  const [granted] = await world.claim();
  expect(await look.command(commandId)).toMatchObject({
    states: ['command.CLAIMED'],
    context: { attempt: 1, worker_id: 'alice' },
  });
  if (granted === undefined) throw new Error('there is a command');
  await world.report(granted, { outcome: 'parked', childExecutionId: 5 });
  expect(await look.command(commandId)).toMatchObject({ states: ['command.PARKED'], context: { parked_on: 5 } });
  await world.server.executions.cancel(executionId, { reason: 'enough', cascade: false, by: 'api' });
  expect(await look.command(commandId)).toMatchObject({ states: ['command.CANCELLED'], row: { status: 'CANCELLED' } });
  await expect(look.command(1)).rejects.toMatchObject({ code: 'not_found' });
});

test('a keychain entry is folded from its log; time that has passed shows, and is not counted', async () => {
  const stored = (expires_at: string): KeychainLogRow => ({
    cacheKey: 'token:7:global',
    seq: 1,
    type: 'entry.stored',
    at: '2020-01-01T00:00:00.000Z',
    context: { scope: 'global', credential_type: 'bearer', cache_type: 'token', expires_at, auto_renew: true },
  });
  const address = { catalogId: 7, name: 'token', scope: 'global', executionId: null } as const;
  const live = await looking([stored('2999-01-01T00:00:00.000Z')]).look.entry(address);
  expect(live).toMatchObject({ states: ['keychain.live'], context: { access_count: 0, auto_renew: true }, at: 1 });
  const expired = await looking([stored('2020-01-01T01:00:00.000Z')]).look.entry(address);
  expect(expired).toMatchObject({ states: ['keychain.expired'], context: { access_count: 0 } });
  const removed: KeychainLogRow = { ...stored(''), seq: 2, type: 'entry.removed', context: { reason: 'deleted' } };
  const gone = await looking([stored('2999-01-01T00:00:00.000Z'), removed]).look.entry(address);
  expect(gone).toMatchObject({ states: ['keychain.absent'], at: 2 });
  await expect(looking().look.entry(address)).rejects.toMatchObject({ code: 'not_found' });
  await expect(looking().look.entry({ ...address, scope: 'local' })).rejects.toMatchObject({
    code: 'validation_error',
  });
});

test('the drawing of an execution goes on from where it was', async () => {
  const { world, look, read } = looking();
  const { executionId } = await world.start('fork');
  const at = async (name: string) => {
    const { overlay, run: state, row } = await look.drawn(executionId);
    return overlay.stepState(name, state, row.status !== 'running').status;
  };
  expect([await at('start'), await at('meet')]).toEqual(['running', 'pending']);
  await run(world);
  read.length = 0;
  expect([await at('start'), await at('meet')]).toEqual(['completed', 'completed']);
  expect(read[0]).toBeLessThan(world.store.log(executionId).length);
  const { overlay } = await look.drawn(executionId);
  expect(Object.fromEntries(overlay.taken())).toEqual({ 'start>a#0': 1, 'start>b#1': 1, 'a>meet#0': 1, 'b>meet#0': 1 });
});
