/** Area B of the catalogue of checks, in virtual time: the hard time-out of a healthy worker, and fairness between runs. */
import { describe, expect, test } from 'vitest';
import type { GrantedCommand } from '../../actors/services.ts';
import { checkStore } from '../support/invariants.ts';
import { first, step } from '../support/playbooks.ts';
import { LIMITS } from '../support/story.ts';
import { World } from '../support/world.ts';

test('CL-09 a command that a healthy worker is silent about goes to another after 1800 s; the first is fenced', async () => {
  const world = new World({ one: [step('a')] });
  const { executionId } = await world.start('one');
  const [held] = await world.claim('alice');
  if (held === undefined) throw new Error('nothing was granted');
  const registeredAt = held.row.claimedAt ?? '';
  /** Alice is alive and well, and names nothing. */
  const pass = (seconds: number) => {
    world.clock.advance(seconds * 1_000);
    world.register('alice', { registeredAt });
  };
  pass(1_799);
  await world.sweep();
  const [, counted] = [await world.claim('bob'), world.command(executionId, 'a@1').republishCount];
  expect(world.command(executionId, 'a@1')).toMatchObject({ workerId: 'alice', attempt: 1 });
  pass(61);
  await world.sweep();
  // One announcement a sweep.
  expect(world.command(executionId, 'a@1').republishCount).toBe(counted + 1);
  const [taken] = await world.claim('bob');
  expect(taken?.row).toMatchObject({ attempt: 2, workerId: 'bob' });
  const claim = world.store.log(executionId).findLast((event) => event.type === 'command.claimed');
  expect(claim?.meta).toMatchObject({
    reclaimed: true,
    reclaimed_from: 'alice',
    reason: 'healthy_worker_hard_timeout',
  });
  expect((await world.report(held)).result).toBe('stale');
  expect(world.row(executionId).status).toBe('running');
  expect((await world.report(taken as GrantedCommand)).result).toBe('accepted');
  expect(world.row(executionId).status).toBe('completed');
  checkStore(world.store);
});

describe('CL-13 next to a run with 5,000 pending commands', () => {
  const SMALL = [step('a', first('b')), step('b', first('c')), step('c')];
  const BIG = [step('each', { loop: { in: 5_000, iterator: 'n', spec: { mode: 'parallel', max_in_flight: 5_000 } } })];

  /** Rounds of one worker with ten slots until ten runs of three steps have ended. */
  async function roundsOf(hasNeighbour: boolean): Promise<number> {
    const limits = { ...LIMITS, loopMaxInFlight: 5_000 };
    const world = new World({ small: SMALL, big: BIG }, { limits });
    if (hasNeighbour) await world.start('big');
    const runs: number[] = [];
    for (let count = 0; count < 10; count += 1) runs.push((await world.start('small')).executionId);
    let held = await world.claim('alice', { max: 10 });
    for (let round = 1; ; round += 1) {
      const { commands } = await world.exchangeWith(
        'alice',
        held.map((each) => world.reportOf(each)),
        { claimId: `r${round}` },
      );
      held = commands;
      if (runs.every((id) => world.row(id).status === 'completed')) return round;
      if (round > 500) throw new Error('the small runs never end');
    }
  }

  test('ten small ones end within five times what they need alone', async () => {
    const alone = await roundsOf(false);
    expect(alone).toBeLessThan(10);
    expect(await roundsOf(true)).toBeLessThanOrEqual(5 * alone);
  });
});
