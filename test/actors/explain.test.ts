import { expect, test } from 'vitest';
import { type ExplainParts, explainExecution, standingOf } from '../../actors/explain.ts';
import type { CommandRow } from '../../actors/ports.ts';
import type { JsonMap } from '../../machines/json.ts';
import { every, first, step } from '../support/playbooks.ts';
import { World } from '../support/world.ts';

/** Both branches lead to one step. */
const FAN = [step('start', every('a', 'b')), step('a', first('join')), step('b', first('join')), step('join')];
const FAILING = [step('start', every('a', 'b')), step('a'), step('b')];

async function running(steps: readonly JsonMap[]) {
  const world = new World({ one: steps });
  const { executionId } = await world.start('one');
  const claimed = async (name: string, worker = 'alice') => {
    const row = world.commandsOf(executionId).find((each) => each.stepName === name);
    return (await world.server.commands.claim(row?.commandId ?? 0, worker, null)).row;
  };
  const ends = async (name: string, outcome: 'ok' | 'error' = 'ok') => {
    const error = { kind: 'k', code: 'E', message: 'm', retryable: false };
    await world.report(await claimed(name), outcome === 'ok' ? {} : { outcome, error });
  };
  await ends('start');
  const explained = (change: Partial<ExplainParts> = {}) =>
    explainExecution(executionId, {
      reads: {
        execution: async (id) => world.row(id),
        commands: async () => world.commandsOf(executionId).filter((row: CommandRow) => row.completedAt === null),
      },
      workers: { list: async () => [...world.workers.values()] },
      clock: world.clock,
      standing: (row) => standingOf(world.server.supervisor, row),
      reaperIntervalSeconds: 30,
      staleSeconds: 60,
      ...change,
    });
  return { world, executionId, claimed, ends, explained };
}

test('a step at its barrier is told after what it waits for, and moves nothing by itself', async () => {
  const { world, ends, claimed, explained } = await running(FAN);
  await ends('a');
  const { commandId } = await claimed('b');
  expect(await explained()).toMatchObject({
    sentence:
      `Worker 'alice' has been working on command ${commandId} (step 'b') for 0 s.` +
      " Step 'join' will start when no branch can reach it any more.",
    stuck: false,
    waitingOn: [
      { kind: 'command', step: 'b', because: 'running' },
      { kind: 'execution', step: 'join', commandId: null, because: 'barrier' },
    ],
  });
  world.register('alice', { status: 'offline' });
  world.register('bob', { status: 'offline' });
  expect(await explained()).toMatchObject({ stuck: true });
});

test('of several open commands the one that nobody can work on is told', async () => {
  const { world, claimed, explained } = await running(FAN);
  await claimed('a');
  world.register('alice', { toolKinds: ['http'] });
  world.register('bob', { toolKinds: ['http'] });
  expect((await explained()).sentence).toMatch(
    /^Waiting for a worker .* \(step 'b'\), .* no ready worker of it takes tool kind 'noop'\. One more is open\.$/,
  );
});

test('a command that could be taken at once says when those who could are busy', async () => {
  const { world, ends, explained } = await running(FAN);
  await ends('a');
  world.register('alice', { capacity: 2, openCommands: 2 });
  world.register('bob', { capacity: 4, openCommands: 3 });
  expect((await explained()).sentence).toMatch(/, pending for 0 s\. Step 'join' /);
  world.register('bob', { capacity: 4, openCommands: 4 });
  expect((await explained()).sentence).toMatch(/, pending for 0 s; all of them are busy\. Step 'join' /);
});

test('a run that fails says that nothing new starts, and one that has ended says why', async () => {
  const { world, executionId, claimed, ends, explained } = await running(FAILING);
  await claimed('b', 'bob');
  await ends('a', 'error');
  expect((await explained()).sentence).toMatch(/^Failing: nothing new starts\. Worker 'bob' has been working on /);
  await world.server.executions.cancel(executionId, { reason: 'enough', cascade: true, by: 'api' });
  expect(await explained()).toMatchObject({
    sentence: 'It has ended: cancelled (enough).',
    stuck: false,
    waitingOn: [],
  });
});

test('an execution that went on between two reads is looked at anew, and is not called stuck', async () => {
  const { world, executionId, ends, explained } = await running(FAILING);
  const before = { ...world.row(executionId) };
  await ends('a');
  await ends('b');
  const rows = [before];
  const reads = {
    execution: async () => rows.shift() ?? world.row(executionId),
    commands: async () => [],
  };
  expect(await explained({ reads })).toMatchObject({
    status: 'completed',
    sentence: 'It has ended: completed.',
    stuck: false,
    waitingOn: [],
  });
  // Whoever goes on for ever is not waited for.
  let lastEventId = before.lastEventId;
  const restless = {
    ...reads,
    execution: async () => {
      lastEventId += 1;
      return { ...before, lastEventId, handledThrough: lastEventId };
    },
  };
  expect(await explained({ reads: restless })).toMatchObject({ status: 'running', stuck: true });
});

test('an execution that cannot be folded is explained by its rows', async () => {
  const { ends, explained } = await running(FAN);
  await ends('a');
  const away = { actorOf: () => Promise.reject(new Error('its playbook cannot be read')) };
  const { sentence, waitingOn } = await explained({ standing: (row) => standingOf(away, row) });
  expect(sentence).toMatch(/^Waiting for a worker of pool 'shared' to claim command \d+ \(step 'b'\)/);
  expect(waitingOn).toHaveLength(1);
});
