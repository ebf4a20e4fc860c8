/** Holding leases: what memory believes, and what happens to a process that slept. Time is a clock that steps. */
import { describe, expect, test } from 'vitest';
import { Leases } from '../../actors/lease.ts';
import { createMemoryLeases, type MemoryLeases } from '../../actors/memory/memory-leases.ts';
import { createStepClock, type StepClock } from '../../actors/memory/step-clock.ts';
import type { Meter } from '../../actors/ports.ts';
import { quiet } from '../support/postgres.ts';

const SECONDS = 15;

function holder(name: string, store: MemoryLeases, clock: StepClock, meter: Meter = silent) {
  const card = { uri: null, version: '1', pid: 1, hostname: 'here' };
  return new Leases({ store, clock, log: quiet, meter, holder: name, card, leaseSeconds: SECONDS });
}

const silent: Meter = { count() {}, observe() {}, gauge() {} };

describe('two processes', () => {
  test('RP-01 never hold one lease at the same time', async () => {
    const clock = createStepClock();
    const store = createMemoryLeases(clock);
    const [a, b] = [holder('a', store, clock), holder('b', store, clock)];
    const mine = await a.acquire('job');
    expect(mine?.isHeld()).toBe(true);
    expect(await b.acquire('job')).toBeNull();
    expect((await b.ask('job')).row).toMatchObject({ holder: 'a' });
    await a.release(mine ?? fail());
    expect((await b.acquire('job'))?.isHeld()).toBe(true);
    expect(mine?.isHeld()).toBe(false);
  });

  test('one that renews keeps its lease for ever', async () => {
    const clock = createStepClock();
    const store = createMemoryLeases(clock);
    const [a, b] = [holder('a', store, clock), holder('b', store, clock)];
    const mine = await a.acquire('job');
    for (let round = 0; round < 20; round += 1) {
      clock.advance((SECONDS * 1000) / 3);
      await a.renew();
      expect(await b.acquire('job')).toBeNull();
    }
    expect(mine?.isHeld()).toBe(true);
    expect((await a.acquire('job'))?.token).toBe(mine?.token);
  });

  test('one that sleeps past the end wakes up without it, and its fence is refused', async () => {
    const lost: string[] = [];
    const clock = createStepClock();
    const store = createMemoryLeases(clock);
    const meter = { ...silent, count: (name: string) => void lost.push(name) };
    const [a, b] = [holder('a', store, clock, meter), holder('b', store, clock)];
    const mine = await a.acquire('job');
    clock.advance(SECONDS * 2000);
    const theirs = await b.acquire('job');
    expect(theirs?.token).toBe((mine?.token ?? 0) + 1);
    expect(mine?.isHeld()).toBe(false);
    expect(store.stands(mine ?? fail())).toBe(false);
    await a.renew();
    expect(lost).toContain('svc_lease_lost_total');
    expect(store.stands(theirs ?? fail())).toBe(true);
    expect(await a.acquire('job')).toBeNull();
  });
});

test('two askers of one process share one answer', async () => {
  const clock = createStepClock();
  const a = holder('a', createMemoryLeases(clock), clock);
  const [first, second] = await Promise.all([a.acquire('job'), a.acquire('job')]);
  expect(first?.token).toBe(1);
  expect(second?.token).toBe(1);
});

test('stopping gives everything back', async () => {
  const clock = createStepClock();
  const store = createMemoryLeases(clock);
  const a = holder('a', store, clock);
  await a.start();
  await a.acquire('job');
  await a.stop();
  expect(await store.list()).toEqual([]);
  expect(await store.others('b')).toEqual([]);
  expect(await a.acquire('job')).toBeNull();
});

function fail(): never {
  throw new Error('the lease should have been had');
}
