import { expect, test } from 'vitest';
import type { RerunRequest } from '../../actors/services.ts';
import { checkStore } from '../support/invariants.ts';
import { first, step } from '../support/playbooks.ts';
import { World } from '../support/world.ts';

const PLAYBOOKS = {
  chain: [
    step('start', { ...first('middle'), set: { 'ctx.seen': '{{ output.data.n }}' } }),
    step('middle', { ...first('last'), set: { 'ctx.mine': 1 } }),
    step('last', { tool: { kind: 'noop', result: '{{ start.n }} {{ ctx.seen }} {{ ctx.mine }}' } }),
  ],
  round: [
    step('start', first('again')),
    step('again', first({ step: 'start', when: '{{ output.data.n == 1 }}' }, 'out')),
    step('out'),
  ],
  large: [step('start', first('last')), step('last', { tool: { kind: 'noop', result: '{{ start }}' } })],
};

function request(change: Partial<RerunRequest> = {}): RerunRequest {
  return { workload: {}, version: 'same', fromStep: null, resourceKind: null, reason: null, trace: null, ...change };
}

async function finish(
  world: World,
  data: (step: string, activation: number) => object = () => ({ n: 7 }),
): Promise<void> {
  for (;;) {
    const commands = await world.claim();
    if (commands.length === 0) return;
    for (const command of commands) {
      const { stepName, activation } = command.row;
      await world.report(command, { data: { ...data(stepName, activation) } as never });
    }
  }
}

test('a rerun repeats the inputs, with the given ones laid over them', async () => {
  const world = new World(PLAYBOOKS);
  const old = await world.start('chain', {
    workload: { a: 1, b: 2 },
    priority: 4,
    labels: { team: 'x' },
    executionPool: 'gpu',
  });
  const { executionId } = await world.server.executions.rerun(
    old.executionId,
    request({ workload: { b: 3 }, reason: 'again' }),
  );
  expect(world.row(executionId)).toMatchObject({
    workload: { a: 1, b: 3 },
    rerunOf: old.executionId,
    rootExecutionId: executionId,
    priority: 4,
    labels: { team: 'x' },
    pool: 'gpu',
  });
  expect(world.store.log(executionId)[0]?.meta).toEqual({ rerun_of: old.executionId, reason: 'again' });
  checkStore(world.store);
});

test('from a step, what was completed before it is there with its values and variables', async () => {
  const world = new World(PLAYBOOKS);
  const old = await world.start('chain');
  await finish(world);
  const { executionId } = await world.server.executions.rerun(old.executionId, request({ fromStep: 'last' }));
  expect(world.types(executionId)).toEqual([
    'execution.started chain',
    'step.exit start',
    'step.exit middle',
    'ctx.updated last',
    'step.enter last',
    'command.issued last',
  ]);
  const [command] = await world.claim();
  expect(command?.row.context['render_context']).toMatchObject({
    ctx: { seen: 7, mine: 1 },
    steps: { start: { value: { n: 7 } } },
  });
  const [, exit] = world.store.log(executionId);
  expect(exit).toMatchObject({
    meta: { copied_from: { execution_id: old.executionId } },
    result: { context: { data: { n: 7 } } },
  });
  expect(await world.server.executions.insight(world.row(executionId))).toMatchObject({
    completedSteps: ['start', 'middle'],
    progressDetail: { total_steps: 3, completed_steps: 2, running_steps: 1 },
  });
  if (command === undefined) throw new Error('there is a command');
  await world.report(command, { data: 1 });
  expect(world.row(executionId)).toMatchObject({ status: 'completed', progress: 100 });
  checkStore(world.store);
});

test('a copied run is brought back from its log as it was', async () => {
  const world = new World(PLAYBOOKS);
  const old = await world.start('chain');
  await finish(world);
  const { executionId } = await world.server.executions.rerun(old.executionId, request({ fromStep: 'last' }));
  world.crash();
  expect(await world.server.executions.insight(world.row(executionId))).toMatchObject({
    completedSteps: ['start', 'middle'],
    variables: { seen: 7, mine: 1 },
  });
  await finish(world);
  expect(world.row(executionId).status).toBe('completed');
});

test('a copy of a copy goes on', async () => {
  const world = new World(PLAYBOOKS);
  const old = await world.start('chain');
  await finish(world);
  const second = await world.server.executions.rerun(old.executionId, request({ fromStep: 'last' }));
  await finish(world);
  const third = await world.server.executions.rerun(second.executionId, request({ fromStep: 'last' }));
  expect(await world.server.executions.insight(world.row(third.executionId))).toMatchObject({
    completedSteps: ['start', 'middle'],
    variables: { seen: 7, mine: 1 },
  });
});

test('what the step can lead to is not copied', async () => {
  const world = new World(PLAYBOOKS);
  const old = await world.start('round');
  await finish(world, (name, activation) => ({ n: name === 'again' ? activation : 0 }));
  const { executionId } = await world.server.executions.rerun(old.executionId, request({ fromStep: 'again' }));
  expect(world.types(executionId)).toEqual(['execution.started round', 'step.enter again', 'command.issued again']);
});

test('a large value stays where it lies and is resolved from there', async () => {
  const world = new World(PLAYBOOKS);
  const old = await world.start('large');
  await finish(world, () => ({ text: 'x'.repeat(100_000) }));
  const { executionId } = await world.server.executions.rerun(old.executionId, request({ fromStep: 'last' }));
  const exit = world.store.log(executionId).find((event) => event.type === 'step.exit');
  expect(exit?.result?.reference?.ref ?? '').toContain(`/${old.executionId}/`);
  await finish(world);
  expect(world.row(executionId).status).toBe('completed');
});

test.each([
  ['nowhere', "the playbook has no step 'nowhere'"],
  ['last', "step 'last' was never entered"],
])('from %s is refused: %s', async (fromStep, sentence) => {
  const world = new World(PLAYBOOKS);
  const old = await world.start('chain');
  await expect(world.server.executions.rerun(old.executionId, request({ fromStep }))).rejects.toMatchObject({
    code: 'validation_error',
    message: expect.stringContaining(sentence),
  });
});

test('a step that a worker calls copied is not', async () => {
  const world = new World(PLAYBOOKS);
  const { executionId } = await world.start('chain');
  const meta = { copied_from: { execution_id: 1 } };
  await world.server.executions.recordEvent(world.eventOf(executionId, 'step.exit', { step: 'last', meta }));
  world.crash();
  expect((await world.server.executions.insight(world.row(executionId))).completedSteps).toEqual([]);
});

test('an unknown execution cannot be run again', async () => {
  const world = new World(PLAYBOOKS);
  await expect(world.server.executions.rerun(1, request())).rejects.toMatchObject({ code: 'not_found' });
});
