/** The short way through the chart of executions is XState's own: same states, same runs, same decisions. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AnyStateNode } from 'xstate';
import type { LogEvent } from '../../../machines/events.ts';
import { EXECUTION_FOLDS, executionMachine } from '../../../machines/execution/machine.ts';
import { fold, foldInPlace, initialSnapshot } from '../../../machines/turn.ts';
import { randomStory } from '../../support/random-story.ts';

const reading = (log: LogEvent) => ({ type: log.type, log });

function expectTheSame(log: readonly LogEvent[]): Set<string> {
  const types = new Set<string>();
  let whole = initialSnapshot(executionMachine);
  let short = initialSnapshot(executionMachine);
  for (const event of log) {
    if (whole.status === 'done') break;
    types.add(event.type);
    const one = fold(executionMachine, whole, reading(event));
    const other = foldInPlace(executionMachine, EXECUTION_FOLDS, short, reading(event));
    whole = one.snapshot;
    short = other.snapshot;
    expect(other.decisions).toEqual(one.decisions);
    expect([short.value, short.status]).toEqual([whole.value, whole.status]);
    expect(JSON.stringify(short.context)).toBe(JSON.stringify(whole.context));
  }
  return types;
}

function statesBelow(state: AnyStateNode): AnyStateNode[] {
  return [state, ...Object.values(state.states).flatMap(statesBelow)];
}

test('on the way of any run', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(fc.array(fc.nat(10_000), { minLength: 1, maxLength: 60 }), (choices) => {
      for (const type of expectTheSame(randomStory(choices).log)) seen.add(type);
    }),
    { numRuns: 300 },
  );
  expect(seen.size).toBeGreaterThan(12);
});

test('every action of the chart is a fold or names a decision, and nothing happens on entry, on exit or by itself', () => {
  const names = new Set<string>();
  for (const state of statesBelow(executionMachine.root)) {
    expect([state.entry, state.exit, state.always ?? []]).toEqual([[], [], []]);
    for (const transitions of state.transitions.values()) {
      for (const { actions } of transitions) for (const action of actions) names.add(String(action));
    }
  }
  const others = [...names].filter((name) => EXECUTION_FOLDS[name] === undefined);
  expect(others.toSorted()).toEqual(['decideAfterCommand', 'decideAfterEnd', 'decideAfterPark', 'decideEntry']);
  expect(names.size - others.length).toBe(Object.keys(EXECUTION_FOLDS).length);
});
