/** The matrix of api 4.9: modes, windows, workers, other servers, and runs that move while they are looked at. */
import { describe, expect, test } from 'vitest';
import { type AutoResumeMode, type InterruptedCandidate, resumeAfterRestart } from '../../actors/auto-resume.ts';
import { LeaseLostError, Leases } from '../../actors/lease.ts';
import { createMemoryLeases } from '../../actors/memory/memory-leases.ts';
import { createStepClock } from '../../actors/memory/step-clock.ts';
import type { StartRequest, WorkerRow } from '../../actors/services.ts';
import { isoOf } from '../../machines/command/instant.ts';
import { executionRow } from '../api/fake-services.ts';
import { quiet } from '../support/postgres.ts';

const CARD = { uri: null, version: '1', pid: 1, hostname: 'here' };

interface World {
  readonly runs?: readonly Partial<InterruptedCandidate>[];
  /** Pools of a worker that comes back after so many seconds. */
  readonly worker?: { readonly name: string; readonly pools: readonly string[]; readonly afterSeconds: number };
  readonly mode?: AutoResumeMode;
  /** Executions that something happened to between look and end. */
  readonly moved?: readonly number[];
  readonly otherServer?: 'killed' | 'alive';
  readonly loseLease?: boolean;
}

async function restart(world: World) {
  const clock = createStepClock();
  const meter = { count() {}, observe() {}, gauge() {} };
  const store = createMemoryLeases(clock);
  if (world.otherServer !== undefined) await store.enrol('srv-b', CARD, 15);
  clock.advance(1_000);
  const startedAt = clock.now();
  const leases = new Leases({ store, clock, log: quiet, meter, holder: 'srv-a', card: CARD, leaseSeconds: 15 });
  const ended: { id: number; extra: unknown; token: number }[] = [];
  const started: StartRequest[] = [];
  const cancelled: number[] = [];
  let asked: { from: string; before: string } | null = null;
  const runs = (world.runs ?? [{}]).map((run, index) => ({
    executionId: index + 1,
    parentExecutionId: null,
    lastEventId: 3,
    commands: [{ pool: 'shared', workerId: null, parkedOn: null }],
    ...run,
  }));
  const outcome = await resumeAfterRestart(startedAt, {
    store: {
      async runsStarted(from, before) {
        asked = { from, before };
        return runs;
      },
    },
    executions: {
      async endInterrupted(id, { extra, fence }) {
        if (world.loseLease) throw new LeaseLostError(fence.name);
        if (world.moved?.includes(id)) return false;
        ended.push({ id, extra, token: fence.token });
        return true;
      },
      async start(request) {
        started.push(request);
        return {
          executionId: 1000 + started.length,
          path: 'p',
          catalogId: 1,
          version: 1,
          kind: 'playbook',
          commandsGenerated: 1,
          duplicate: false,
          startedAt: isoOf(clock.now()),
          waited: null,
        };
      },
      async cancel(id) {
        cancelled.push(id);
        return { status: 'cancelled', cancelled: [id], message: '' };
      },
    },
    heads: { execution: async (executionId) => executionRow({ executionId, kind: 'playbook', lastEventId: 3 }) },
    workers: {
      async list() {
        const { worker } = world;
        if (worker === undefined || clock.now() < startedAt + worker.afterSeconds * 1000) return [];
        // The look reads these fields of a row and no others.
        const row = { name: worker.name, pools: worker.pools, status: 'ready', offlineAfterSeconds: 6 };
        return [{ ...row, heartbeatAt: isoOf(clock.now()) } as unknown as WorkerRow];
      },
    },
    leases,
    clock,
    log: quiet,
    meter,
    mode: world.mode ?? 'cancel',
    windowMinutes: 5,
    settleSeconds: 5,
    async pause(ms) {
      clock.advance(ms);
      if (world.otherServer === 'alive') await store.renew('srv-b', [], 15);
    },
  });
  return { outcome, ended, started, cancelled, asked, startedAt, waitedMs: clock.now() - startedAt, leases: store };
}

describe('a run nobody can go on with', () => {
  test('is cancelled by default, under the token of the lease', async () => {
    const { outcome, ended, started } = await restart({});
    expect(outcome).toEqual({ outcome: 'done', interrupted: [1] });
    expect(ended).toEqual([{ id: 1, extra: { auto_cancelled: true }, token: 1 }]);
    expect(started).toEqual([]);
  });

  test('is left as it is in mode continue', async () => {
    const { outcome, ended, started } = await restart({ mode: 'continue' });
    expect(outcome.interrupted).toEqual([1]);
    expect([ended, started]).toEqual([[], []]);
  });

  test('is ended and started again in mode restart, each naming the other', async () => {
    const { ended, started } = await restart({ mode: 'restart' });
    expect(started).toMatchObject([{ catalogId: 2003, rerunOf: 1, idempotencyKey: 'auto_resume:1' }]);
    expect(ended).toMatchObject([{ id: 1, extra: { auto_cancelled: true, restarted_execution_id: 1001 } }]);
  });

  test('below another one is ended with it and not started again', async () => {
    const parent = { commands: [{ pool: 'shared', workerId: null, parkedOn: 2 }] };
    const { ended, started } = await restart({ mode: 'restart', runs: [parent, { parentExecutionId: 1 }] });
    expect(started.map((request) => request.rerunOf)).toEqual([1]);
    expect(ended.map((each) => each.id)).toEqual([1, 2]);
  });

  test('RP-08 is looked for in the window before the start and not after it', async () => {
    const { asked, startedAt } = await restart({});
    expect(asked).toEqual({ from: isoOf(startedAt - 300_000), before: isoOf(startedAt) });
  });
});

describe('a run goes on', () => {
  test('when a worker of its pool comes back while things settle', async () => {
    const { ended } = await restart({ worker: { name: 'new', pools: ['shared'], afterSeconds: 4 } });
    expect(ended).toEqual([]);
  });

  test('when its own worker, restarted with the server, was holding its command', async () => {
    const runs = [{ commands: [{ pool: 'shared', workerId: 'old', parkedOn: null }] }];
    const { ended } = await restart({ runs, worker: { name: 'new', pools: ['shared'], afterSeconds: 1 } });
    expect(ended).toEqual([]);
  });

  test('but not when only workers of other pools come back', async () => {
    const { ended } = await restart({ worker: { name: 'new', pools: ['gpu'], afterSeconds: 1 } });
    expect(ended).toHaveLength(1);
  });

  test('when it moved between look and end; a run started in its place is taken back', async () => {
    expect((await restart({ moved: [1] })).outcome.interrupted).toEqual([]);
    const again = await restart({ moved: [1], mode: 'restart' });
    expect([again.ended, again.cancelled]).toEqual([[], [1001]]);
  });
});

describe('another server', () => {
  test('that lives keeps its runs', async () => {
    const { outcome, asked } = await restart({ otherServer: 'alive' });
    expect([outcome.outcome, asked]).toEqual(['other_server', null]);
  });

  test('that was killed is waited for until its time is over', async () => {
    const { outcome, waitedMs } = await restart({ otherServer: 'killed' });
    expect(outcome.interrupted).toEqual([1]);
    expect(waitedMs).toBeGreaterThanOrEqual(14_000);
    expect(waitedMs).toBeLessThan(20_000);
  });

  test('that has taken the lease meanwhile ends the look', async () => {
    const { outcome } = await restart({ loseLease: true });
    expect(outcome).toEqual({ outcome: 'lease_lost', interrupted: [] });
  });
});

test('the lease is given back', async () => {
  const { leases } = await restart({});
  expect(await leases.list()).toEqual([]);
});
