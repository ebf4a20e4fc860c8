import { describe, expect, test } from 'vitest';
import { createStepClock } from '../../actors/memory/step-clock.ts';
import { WakeQueue } from '../../actors/wake-queue.ts';

function queueOf() {
  const clock = createStepClock();
  const woken: number[] = [];
  const { promise: first, resolve } = Promise.withResolvers<void>();
  const queue = new WakeQueue({
    clock,
    onDue: (waits) => {
      woken.push(...waits.map((wait) => wait.commandId));
      resolve();
    },
  });
  const add = (inMs: number, commandId: number) =>
    queue.add(clock.now() + inMs, { executionId: 1, commandId, childExecutionId: 0 });
  return { clock, woken, queue, add, first };
}

describe('a queue of moments', () => {
  test('wakes in the order of the moments, whatever the order they came in', () => {
    const { clock, woken, queue, add } = queueOf();
    const moments = Array.from({ length: 200 }, (_, index) => (index * 7919) % 200);
    for (const moment of moments) add(moment * 1000, moment);
    clock.advance(100_000);
    queue.look();
    expect(woken).toEqual(Array.from({ length: 101 }, (_, index) => index));
    expect(queue.size).toBe(99);
    queue.stop();
    expect(queue.size).toBe(0);
  });

  test('keeps a moment once, and the last one that was told counts', () => {
    const { clock, woken, queue, add } = queueOf();
    add(1000, 7);
    add(1000, 7);
    expect(queue.size).toBe(1);
    add(5000, 7);
    clock.advance(1000);
    queue.look();
    expect(woken).toEqual([]);
    clock.advance(4000);
    queue.look();
    expect(woken).toEqual([7]);
    queue.stop();
  });

  test('wakes by itself, and not before the clock that decides says so', async () => {
    const { clock, woken, queue, add, first } = queueOf();
    add(5, 1);
    queue.look();
    expect(woken).toEqual([]);
    clock.advance(5);
    await first;
    expect(woken).toEqual([1]);
    queue.stop();
  });
});
