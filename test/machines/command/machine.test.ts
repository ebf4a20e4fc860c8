import { describe, expect, it } from 'vitest';
import { initialTransition, transition } from 'xstate';
import { getShortestPaths } from 'xstate/graph';
import { type CommandEvent, commandMachine } from '../../../machines/command/machine.ts';

const ALPHABET: readonly CommandEvent[] = [
  { type: 'command.claimed', attempt: 1, workerId: 'alice' },
  { type: 'command.republished' },
  { type: 'command.started' },
  { type: 'command.parked', childExecutionId: 7 },
  { type: 'command.completed' },
  { type: 'command.failed' },
  { type: 'command.cancelled' },
];

function reached(...events: readonly CommandEvent[]) {
  let [snapshot] = initialTransition(commandMachine);
  for (const event of events) [snapshot] = transition(commandMachine, snapshot, event);
  return snapshot;
}

const claimed: CommandEvent = { type: 'command.claimed', attempt: 1, workerId: 'alice' };

describe('the command chart', () => {
  it('goes from pending over claimed and running to its end', () => {
    expect(reached().value).toBe('PENDING');
    expect(reached(claimed).value).toBe('CLAIMED');
    expect(reached(claimed, { type: 'command.started' }).value).toBe('RUNNING');
    expect(reached(claimed, { type: 'command.started' }, { type: 'command.completed' }).value).toBe('COMPLETED');
  });

  it('takes a running command away from a lost worker with a higher attempt', () => {
    const reclaimed = reached(claimed, { type: 'command.started' }, { ...claimed, attempt: 2, workerId: 'bob' });
    expect(reclaimed.value).toBe('CLAIMED');
    expect(reclaimed.context).toMatchObject({ attempt: 2, workerId: 'bob' });
  });

  it('parks until the child ends, and no claim reaches a parked command', () => {
    const parked = reached(claimed, { type: 'command.parked', childExecutionId: 7 });
    expect([parked.value, parked.context.parkedOn]).toEqual(['PARKED', 7]);
    const [still] = transition(commandMachine, parked, { ...claimed, attempt: 2 });
    expect(still.value).toBe('PARKED');
    const [ended] = transition(commandMachine, parked, { type: 'command.completed' });
    expect([ended.value, ended.context.parkedOn]).toEqual(['COMPLETED', null]);
  });

  it('counts announcements and changes nothing else', () => {
    const twice = reached(claimed, { type: 'command.republished' }, { type: 'command.republished' });
    expect([twice.value, twice.context.republishCount]).toEqual(['CLAIMED', 2]);
  });

  it('reaches every state, and terminal states absorb', () => {
    const paths = getShortestPaths(commandMachine, {
      events: ALPHABET,
      serializeState: (snapshot) => String(snapshot.value),
    });
    expect(new Set(paths.map((path) => String(path.state.value))).size).toBe(7);
    for (const path of paths.filter((each) => each.state.hasTag('terminal'))) {
      for (const event of ALPHABET) {
        const [next] = transition(commandMachine, path.state, event);
        expect(next.value).toBe(path.state.value);
      }
    }
  });

  it('is plain JSON in which every state is described and tagged', () => {
    expect(JSON.parse(JSON.stringify(commandMachine.config))).toEqual(commandMachine.config);
    for (const state of Object.values(commandMachine.config.states ?? {})) {
      expect(state.description).toBeTruthy();
      expect(state.tags).toBeTruthy();
    }
  });
});
