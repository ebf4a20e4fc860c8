/** The fold of rows that say less than ours: it never fails, because the log may hold rows of other writers. */
import { expect, test } from 'vitest';
import {
  assignVariables,
  attachOutcome,
  closeCommand,
  markFailing,
  openActivation,
  openCommand,
  parkCommand,
  settleCommand,
} from '../../../machines/execution/evolve.ts';
import { newRun } from '../../../machines/execution/run.ts';
import { logEvent } from '../../api/fake-services.ts';

const loopOfRows = () => {
  const run = newRun();
  const context = { mode: 'cursor', iterator: 'row', iterations_expected: 0 };
  openActivation(run, logEvent(2, { type: 'step.enter', nodeName: 'each', context }));
  return run;
};

test('a claim or a body without its place is that of the first frame and row', () => {
  const run = loopOfRows();
  openCommand(run, logEvent(3, { nodeName: 'each', commandId: 1, meta: { cursor: { phase: 'claim' } } }));
  expect(run.steps['each']?.loop?.cursor).toEqual({ frame: 0, rows: null, row: 0 });
  openCommand(run, logEvent(4, { nodeName: 'each', commandId: 2, meta: { cursor: { phase: 'body' } } }));
  expect(run.steps['each']?.loop?.cursor?.row).toBe(1);
});

test('a command that waits for a child it does not name waits for none', () => {
  const run = newRun();
  openCommand(run, logEvent(2, { nodeName: 'a', commandId: 1 }));
  parkCommand(run, logEvent(3, { commandId: 1, context: { pending_callback: true } }));
  expect(run.open[1]?.parkedOn).toBe(0);
});

test('what is said of a command that is not open changes nothing', () => {
  const run = newRun();
  openCommand(run, logEvent(2, { nodeName: 'a', commandId: 1 }));
  const before = JSON.stringify(run);
  for (const fold of [attachOutcome, parkCommand, settleCommand, closeCommand]) {
    for (const commandId of [null, 9]) fold(run, logEvent(3, { commandId }));
    fold(run, logEvent(3, { commandId: 1, stale: true }));
  }
  expect(JSON.stringify(run)).toBe(before);
});

test('failing without a word of why is failing all the same', () => {
  const run = newRun();
  markFailing(run, logEvent(2, { meta: { failures: 'many' } }));
  expect([run.failing, run.failures]).toEqual([true, []]);
});

test('a step that has not completed cannot fail by what follows its end', () => {
  const run = loopOfRows();
  const failed = { kind: 'transform', code: null, message: 'no' };
  assignVariables(run, logEvent(3, { nodeName: 'each', meta: { failed } }));
  assignVariables(run, logEvent(3, { nodeName: 'ghost', meta: { failed } }));
  expect([run.steps['each']?.status, run.steps['ghost'], run.counts.failed]).toEqual(['open', undefined, 0]);
});

test('when a step fails by what follows its end, the step that completed last is another one or none', () => {
  const run = newRun();
  const fail = (nodeName: string) =>
    assignVariables(run, logEvent(9, { nodeName, meta: { failed: { kind: 'transform', code: null, message: 'no' } } }));
  for (const [index, name] of ['a', 'b', 'c'].entries()) {
    openActivation(run, logEvent(2 * index, { nodeName: name }));
    openCommand(run, logEvent(2 * index, { nodeName: name, commandId: index }));
    settleCommand(run, logEvent(2 * index + 1, { type: 'command.completed', commandId: index }));
  }
  expect(run.lastCompleted).toBe('c');
  const seen = ['c', 'a', 'b'].map((name) => {
    fail(name);
    return run.lastCompleted;
  });
  expect(seen).toEqual(['b', 'b', null]);
});
