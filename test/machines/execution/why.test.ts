import { expect, test } from 'vitest';
import { newRun } from '../../../machines/execution/run.ts';
import { explainRun } from '../../../machines/execution/why.ts';

test('what a run waited for is told from the run alone', () => {
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
    isClaim: false,
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
