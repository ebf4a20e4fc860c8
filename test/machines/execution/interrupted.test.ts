import { describe, expect, test } from 'vitest';
import { type Alive, interruptedRuns, type RunFacts } from '../../../machines/execution/interrupted.ts';

const NOBODY: Alive = { workers: new Set(), pools: new Set() };
const ALICE: Alive = { workers: new Set(['alice']), pools: new Set(['shared']) };

type Open = RunFacts['commands'][number];
const pending: Open = { pool: 'shared', workerId: null, parkedOn: null };
const held: Open = { pool: 'shared', workerId: 'alice', parkedOn: null };
const parkedOn = (child: number): Open => ({ pool: 'shared', workerId: 'alice', parkedOn: child });
const run = (executionId: number, ...commands: Open[]): RunFacts => ({ executionId, commands });

describe('a run is interrupted', () => {
  test.each([
    ['when nothing is open', run(1), ALICE, true],
    ['when its command waits and nobody is there', run(1, pending), NOBODY, true],
    ['but not when a live worker serves the pool', run(1, pending), ALICE, false],
    ['when only another pool is served', run(1, { ...pending, pool: 'gpu' }), ALICE, true],
    ['but not when a live worker holds its command', run(1, { ...held, pool: 'gpu' }), ALICE, false],
    ['when the holder is gone and nobody serves the pool', run(1, held), NOBODY, true],
    ['but not when another worker can take the command over', run(1, { ...held, workerId: 'bob' }), ALICE, false],
    ['but not when one of its commands can move', run(1, { ...pending, pool: 'gpu' }, pending), ALICE, false],
    ['but not when it waits for a run that is not among them', run(1, parkedOn(99)), NOBODY, false],
  ])('%s', (_name, facts, alive, expected) => {
    expect(interruptedRuns([facts], alive)).toEqual(expected ? [1] : []);
  });

  test('together with the child it waits for, however deep', () => {
    const runs = [run(1, parkedOn(2)), run(2, parkedOn(3)), run(3, pending), run(4, parkedOn(5)), run(5, pending)];
    expect(interruptedRuns(runs, NOBODY)).toEqual([1, 2, 3, 4, 5]);
    expect(interruptedRuns(runs, ALICE)).toEqual([]);
  });

  test('and rows that wait for each other do not hang the look', () => {
    expect(interruptedRuns([run(1, parkedOn(2)), run(2, parkedOn(1))], NOBODY)).toEqual([1, 2]);
  });
});
