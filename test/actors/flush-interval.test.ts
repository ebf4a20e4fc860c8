/** How many turns share a transaction when a least time between two is set. */
import { setTimeout as pause } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import type { Store } from '../../actors/ports.ts';
import { World } from '../support/world.ts';

const ONE = { one: [{ step: 'start', tool: { kind: 'noop' } }] };

/** A world whose commits are counted by the executions they start. */
function counted(flushIntervalMs: number) {
  const world = new World(ONE, { flushIntervalMs });
  const started: number[] = [];
  const store: Store = {
    ...world.store,
    commit: (flush, onPhase) => {
      started.push(flush.started.length);
      return world.store.commit(flush, onPhase);
    },
  };
  const server = world.another(store);
  return { started, start: () => world.start('one', {}, server), server };
}

test('after a pause nobody waits; what comes within the interval shares the next transaction', async () => {
  const { started, start } = counted(400);
  const begin = performance.now();
  await start();
  expect(performance.now() - begin).toBeLessThan(400);
  const later = [];
  for (let count = 0; count < 4; count += 1) {
    later.push(start());
    await pause(1);
  }
  await Promise.all(later);
  expect(started).toEqual([1, 4]);
});

test('less than a millisecond is not waited for while nothing is under way', async () => {
  const { started, start } = counted(1);
  const timers = vi.spyOn(globalThis, 'setTimeout');
  const begin = performance.now();
  let count = 0;
  for (; performance.now() - begin < 20; count += 1) await start();
  const waits = timers.mock.calls.filter(([, ms]) => ms !== undefined && ms <= 1);
  timers.mockRestore();
  expect(waits).toEqual([]);
  expect(started).toHaveLength(count);
});

test('a stop waits for what the interval holds back', async () => {
  const { started, start, server } = counted(300);
  await start();
  const held = start();
  await pause(10);
  await Promise.all([server.stop(), held]);
  expect(started).toEqual([1, 1]);
});

test('without an interval one transaction follows the other', async () => {
  const { started, start } = counted(0);
  await start();
  await start();
  await start();
  expect(started).toEqual([1, 1, 1]);
});
