import { expect, test } from 'vitest';
import { newRun } from '../../../machines/execution/run.ts';
import { explainRun, explainWaiting, type WaitFacts, type WaitingCommand } from '../../../machines/execution/why.ts';

const NOW = Date.parse('2026-11-20T10:15:44.000Z');
const SINCE = '2026-11-20T10:15:02.000Z';

function command(change: Partial<WaitingCommand> = {}): WaitingCommand {
  return {
    commandId: 41_012,
    step: 'fetch',
    status: 'PENDING',
    since: SINCE,
    pool: 'shared',
    attempt: 0,
    workerId: null,
    worker: null,
    isServed: true,
    parkedOn: null,
    nextWakeAt: null,
    ...change,
  };
}

function facts(commands: readonly WaitingCommand[], change: Partial<WaitFacts> = {}): WaitFacts {
  return {
    status: 'running',
    commands,
    openCommands: commands.length,
    joins: [],
    inbox: { count: 0, since: null },
    now: NOW,
    overdueAfterMs: 10_000,
    ...change,
  };
}

const held = { status: 'RUNNING', workerId: 'worker-7', attempt: 1 } as const;

test.each<readonly [string, Partial<WaitingCommand>, string, boolean]>([
  ['no_ready_worker', { isServed: false }, 'no ready worker serves this pool', true],
  [
    'waiting_for_claim',
    {},
    "Waiting for a worker of pool 'shared' to claim command 41012 (step 'fetch'), pending for 42 s.",
    false,
  ],
  ['retry_wait', { attempt: 2 }, 'pending for 42 s.', false],
  [
    'running',
    { ...held, worker: 'ready' },
    "Waiting for worker 'worker-7' to finish command 41012 (step 'fetch'), running for 42 s.",
    false,
  ],
  ['worker_stale', { ...held, worker: 'stale' }, 'has not been heard of lately', false],
  ['worker_offline', { ...held, worker: 'offline' }, "worker 'worker-7' is offline", false],
  ['no_ready_worker', { ...held, worker: 'offline', isServed: false }, "of worker 'worker-7', which is gone", true],
  ['parked_on_child', { ...held, parkedOn: 41_031 }, 'Waiting for child execution 41031', false],
])('a command waits because of %s (%#)', (because, change, part, isStuck) => {
  const explanation = explainWaiting(facts([command(change)]));
  expect(explanation.waitingOn.map((wait) => wait.because)).toEqual([because]);
  expect(explanation.sentence).toContain(part);
  expect(explanation.isStuck).toBe(isStuck);
});

test('the sentence is about what nobody works on, and counts the rest', () => {
  const explanation = explainWaiting(
    facts([command({ ...held, worker: 'ready' }), command({ commandId: 2, step: 'other', isServed: false })], {
      openCommands: 12,
    }),
  );
  expect(explanation.sentence).toContain("command 2 (step 'other')");
  expect(explanation.sentence).toContain('11 more commands are open.');
  expect(explanation.isStuck).toBe(false);
});

test('a wake-up that should have happened an interval ago makes it stuck', () => {
  const late = command({ nextWakeAt: '2026-11-20T10:15:30.000Z' });
  expect(explainWaiting(facts([late])).isStuck).toBe(true);
  expect(explainWaiting(facts([late], { overdueAfterMs: 60_000 })).isStuck).toBe(false);
});

test('events that nobody has handled are waited for', () => {
  const { sentence, isStuck } = explainWaiting(facts([], { inbox: { count: 2, since: SINCE } }));
  expect(sentence).toBe('Waiting for the server to handle 2 recorded events, there for 42 s.');
  expect(isStuck).toBe(false);
});

test('an execution with nothing under way is stuck, one that has ended is not', () => {
  expect(explainWaiting(facts([]))).toMatchObject({ isStuck: true, waitingOn: [] });
  expect(explainWaiting(facts([], { status: 'failed' }))).toEqual({
    sentence: 'The execution is failed; nothing is waited for.',
    isStuck: false,
    waitingOn: [],
  });
});

test('a join that nothing can reach is stuck at its barrier', () => {
  const explanation = explainWaiting(facts([], { joins: [{ step: 'meet', since: SINCE }] }));
  expect(explanation).toMatchObject({ isStuck: true, waitingOn: [{ kind: 'barrier', step: 'meet' }] });
});

test('the past is told from the run alone', () => {
  const run = newRun();
  expect(explainRun(run, 'created')).toBe('Nothing has happened yet.');
  expect(explainRun(run, 'working')).toBe('No command is open.');
  expect(explainRun(run, 'completed')).toContain('nothing is waited for');
  const open = {
    step: 'fetch',
    activation: 1,
    iteration: null,
    issued: 3,
    outcome: null,
    failed: false,
    parkedOn: null,
  };
  run.open[41_012] = open;
  run.joins = ['meet'];
  expect(explainRun(run, 'working')).toBe(
    "Waiting for the outcome of command 41012 (step 'fetch'); step 'meet' waits at its barrier.",
  );
  run.open[41_013] = { ...open, step: 'other', parkedOn: 41_031 };
  expect(explainRun(run, 'failing')).toBe(
    "Failing: nothing new starts. Waiting for 2 commands of steps 'fetch', 'other', 1 of them for child executions; step 'meet' waits at its barrier.",
  );
});
