import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { RunningEngine } from '../../actors/engine.ts';
import { DomainError } from '../../actors/errors.ts';
import { Leases } from '../../actors/lease.ts';
import { createMemoryLeases } from '../../actors/memory/memory-leases.ts';
import type { Fired, Schedule } from '../../actors/schedule-service.ts';
import { createScheduler, type DueStore, type Scheduler } from '../../actors/scheduler.ts';
import type { StartReceipt } from '../../actors/services.ts';
import { zoneOffset } from '../../src/time-zones.ts';
import { SCHEDULE } from '../api/fake-services.ts';
import { step } from '../support/playbooks.ts';
import { quiet } from '../support/postgres.ts';
import { World } from '../support/world.ts';

const MINUTE = 60_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A world with schedules in memory and as many servers as a test wants. */
class Scheduled {
  readonly world = new World({ one: [step('a')] });
  readonly leases = createMemoryLeases(this.world.clock);
  readonly rows = new Map<number, Schedule>();
  readonly history: Fired[] = [];
  /** Called before the note of a firing is written. */
  onAdvance: () => void = () => {};
  readonly #running: Scheduler[] = [];

  constructor(change: Partial<Schedule>) {
    const next = this.iso(this.world.clock.now() + MINUTE);
    const base = { ...SCHEDULE, path: 'one', cron: null, intervalSeconds: 60, nextRunAt: next };
    this.rows.set(801, { ...base, ...change });
  }

  iso(at: number): string {
    return new Date(at).toISOString();
  }

  get row(): Schedule {
    const row = this.rows.get(801);
    if (row === undefined) throw new Error('no schedule');
    return row;
  }

  serve(holder: string, start?: RunningEngine['executions']['start']): Scheduler {
    const { world } = this;
    const card = { uri: null, version: '1', pid: 1, hostname: 'h' };
    const { executions } = world.server;
    const scheduler = createScheduler({
      store: this.#store(),
      executions: {
        start: start ?? ((request) => executions.start(request)),
        cancel: (id, options) => executions.cancel(id, options),
      },
      isRunning: async (id) => world.row(id).status === 'running',
      zone: zoneOffset,
      leases: new Leases({
        store: this.leases,
        clock: world.clock,
        log: quiet,
        meter: NO_METER,
        holder,
        card,
        leaseSeconds: 15,
      }),
      clock: world.clock,
      bus: world.exchange.connect(),
      log: quiet,
      meter: NO_METER,
    });
    scheduler.start();
    this.#running.push(scheduler);
    return scheduler;
  }

  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 1_000) {
      this.world.clock.advance(Math.min(1_000, left));
      await vi.advanceTimersByTimeAsync(Math.min(1_000, left));
    }
  }

  async end(): Promise<void> {
    await Promise.all(this.#running.map((each) => each.stop()));
  }

  executions(): readonly { key: string | null; status: string }[] {
    return this.world.store.executions().map(({ idempotencyKey, status }) => ({ key: idempotencyKey, status }));
  }

  #store(): DueStore {
    return {
      due: async (until, limit) =>
        [...this.rows.values()]
          .filter(({ enabled, nextRunAt }) => enabled && nextRunAt !== null && nextRunAt <= until)
          .slice(0, limit),
      nextMoment: async () =>
        [...this.rows.values()]
          .flatMap(({ enabled, nextRunAt }) => (enabled && nextRunAt ? [nextRunAt] : []))
          .sort()[0] ?? null,
      advance: async (schedule, { fired, nextRunAt }, fence) => {
        this.onAdvance();
        if (!this.leases.stands(fence)) throw new Error('the lease is gone');
        const row = this.rows.get(schedule.scheduleId);
        if (row === undefined || row.nextRunAt !== schedule.nextRunAt) return false;
        if (fired !== null) this.history.push(fired);
        const { at = row.lastRunAt, status = row.lastStatus } = fired ?? {};
        const lastExecutionId = fired?.executionId ?? row.lastExecutionId;
        this.rows.set(row.scheduleId, { ...row, nextRunAt, lastRunAt: at, lastStatus: status, lastExecutionId });
        return true;
      },
    };
  }
}

const NO_METER = { count: () => {}, gauge: () => {}, observe: () => {} };

describe('a scheduler', () => {
  test('starts what is due at its moment, with the key of that moment, and plans the next', async () => {
    const sut = new Scheduled({ workload: { who: 'me' } });
    const planned = sut.row.nextRunAt;
    sut.serve('a');
    await sut.pass(59_000);
    expect(sut.executions()).toEqual([]);
    await sut.pass(2_000);
    expect(sut.executions()).toEqual([{ key: `schedule:801:${planned}`, status: 'running' }]);
    expect(sut.row).toMatchObject({
      lastRunAt: planned,
      lastStatus: 'started',
      nextRunAt: sut.iso(Date.parse(planned ?? '') + MINUTE),
    });
    await sut.pass(MINUTE);
    expect(sut.executions()).toHaveLength(2);
    await sut.end();
  });

  test('of several servers starts once; another takes over when the lease ends', async () => {
    const sut = new Scheduled({});
    const first = sut.serve('a');
    sut.serve('b');
    sut.serve('c');
    await sut.pass(61_000);
    expect(sut.executions()).toHaveLength(1);
    await first.stop();
    await sut.pass(90_000);
    expect(sut.history).toHaveLength(2);
    expect(sut.executions()).toHaveLength(2);
    await sut.end();
  });

  test('that died between start and note starts nothing twice', async () => {
    const sut = new Scheduled({ overlap: 'skip' });
    let failures = 2;
    sut.onAdvance = () => {
      failures -= 1;
      if (failures >= 0) throw new Error('the connection is gone');
    };
    sut.serve('a');
    await sut.pass(80_000);
    expect(sut.executions()).toHaveLength(1);
    expect(sut.history).toMatchObject([{ status: 'started' }]);
    await sut.end();
  });

  test.each([
    ['none', 0, 'missed'],
    ['last', 1, 'started'],
    ['all', 10, 'started'],
  ] as const)('with catch_up %s starts %i of ten that were missed', async (catchUp, started, status) => {
    const nextRunAt = '2026-11-20T10:20:00.000Z';
    const sut = new Scheduled({ catchUp, cron: '*/10 * * * *', intervalSeconds: null, nextRunAt });
    sut.world.clock.advance(Date.parse('2026-11-20T11:55:00Z') - sut.world.clock.now());
    sut.serve('a');
    await sut.pass(60_000);
    expect(sut.executions()).toHaveLength(started);
    expect(sut.row.lastStatus).toBe(status);
    expect(sut.row.nextRunAt).toBe('2026-11-20T12:00:00.000Z');
    const keys = sut.executions().map(({ key }) => key);
    expect(keys).toEqual([...keys].sort());
    await sut.end();
  });

  test('starts a moment that is a little late although nothing is caught up', async () => {
    const sut = new Scheduled({});
    sut.world.clock.advance(MINUTE + 40_000);
    sut.serve('a');
    await sut.pass(5_000);
    expect(sut.executions()).toHaveLength(1);
    await sut.end();
  });

  test('skips or cancels what still runs, as it is told', async () => {
    const skipping = new Scheduled({ overlap: 'skip' });
    skipping.serve('a');
    await skipping.pass(125_000);
    expect(skipping.executions()).toHaveLength(1);
    expect(skipping.history.map(({ status }) => status)).toEqual(['started', 'skipped']);
    await skipping.end();
    const cancelling = new Scheduled({ overlap: 'cancel_previous' });
    cancelling.serve('a');
    await cancelling.pass(125_000);
    expect(cancelling.executions().map(({ status }) => status)).toEqual(['cancelled', 'running']);
    await cancelling.end();
  });

  test('looks again at once when a schedule is changed, also by another process', async () => {
    const sut = new Scheduled({ enabled: false });
    sut.serve('a');
    const other = sut.serve('b');
    await sut.pass(1_000);
    sut.rows.set(801, { ...sut.row, enabled: true, nextRunAt: sut.iso(sut.world.clock.now() + 2_000) });
    other.changed();
    await sut.pass(3_000);
    expect(sut.executions()).toHaveLength(1);
    await sut.end();
  });

  test('notes a start that was refused, and leaves it to another server while it drains', async () => {
    const refused = new Scheduled({});
    refused.serve('a', async () => {
      throw new DomainError('not_found', 'Executable catalog entry not found: one');
    });
    await refused.pass(61_000);
    expect(refused.row).toMatchObject({ lastStatus: 'failed_to_start', lastExecutionId: null });
    await refused.end();
    const draining = new Scheduled({});
    draining.serve('a', async (): Promise<StartReceipt> => {
      throw new DomainError('shutting_down', 'This server drains and starts nothing');
    });
    draining.serve('b');
    await draining.pass(90_000);
    expect(draining.executions()).toHaveLength(1);
    await draining.end();
  });

  test('a single moment comes once', async () => {
    const sut = new Scheduled({ intervalSeconds: null });
    sut.rows.set(801, { ...sut.row, runAt: sut.row.nextRunAt });
    sut.serve('a');
    await sut.pass(300_000);
    expect(sut.executions()).toHaveLength(1);
    expect(sut.row.nextRunAt).toBeNull();
    await sut.end();
  });
});
