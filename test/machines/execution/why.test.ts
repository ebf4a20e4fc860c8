import { expect, test } from 'vitest';
import { newRun } from '../../../machines/execution/run.ts';
import { explainRun } from '../../../machines/execution/why.ts';

const OPEN = {
  step: 'fetch',
  activation: 1,
  iteration: null,
  issued: 3,
  outcome: null,
  failed: false,
  parkedOn: null,
  isClaim: false,
};

test('what a run waited for is told from the run alone', () => {
  const run = newRun();
  expect(explainRun(run, 'created')).toBe('Nothing has happened yet.');
  expect(explainRun(run, 'working')).toBe('No command is open.');
  expect(explainRun(run, 'completed')).toContain('nothing is waited for');
  run.open[41_012] = OPEN;
  run.joins = ['meet'];
  expect(explainRun(run, 'working')).toBe(
    "Waiting for the outcome of command 41012 (step 'fetch'); step 'meet' waits at its barrier.",
  );
  run.open[41_012] = { ...OPEN, parkedOn: 41_031 };
  expect(explainRun(run, 'working')).toContain("Waiting for child execution 41031 (step 'fetch')");
  run.open[41_012] = OPEN;
  run.open[41_013] = { ...OPEN, step: 'other', parkedOn: 41_031 };
  expect(explainRun(run, 'failing')).toBe(
    "Failing: nothing new starts. Waiting for 2 commands of steps 'fetch', 'other', 1 of them for child executions; step 'meet' waits at its barrier.",
  );
});

test('of very many commands only some steps are named', () => {
  const run = newRun();
  for (const [index, name] of ['a', 'b', 'c', 'd', 'e'].entries()) run.open[index] = { ...OPEN, step: name };
  expect(explainRun(run, 'working')).toBe("Waiting for 5 commands of steps 'a', 'b', 'c' and 2 more.");
});
