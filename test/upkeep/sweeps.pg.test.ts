/** Pages of the reaper on PostgreSQL: what they pick, what they write, and that an old lease writes nothing. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Fence, LeaseLostError, Leases } from '../../actors/lease.ts';
import { Reaper, type ReaperSettings } from '../../actors/reaper.ts';
import { createLeaseStore } from '../../src/store/leases.ts';
import { createSweepStore } from '../../src/store/sweeps.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { quiet } from '../support/postgres.ts';

const SETTINGS: ReaperSettings = {
  enabled: true,
  intervalSeconds: 60,
  maxPerRun: 100,
  pendingRetrySeconds: 60,
  workerStaleSeconds: 60,
  hardTimeoutSeconds: 1800,
};

let test_: TestDatabase;
const stops: (() => Promise<void>)[] = [];
beforeAll(async () => {
  test_ = await openTestDatabase();
});
afterAll(() => test_.close());
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});
beforeEach(async () => {
  const { reads } = test_.database;
  for (const table of ['command', 'execution', 'runtime', 'lease']) await reads.run(`delete from core.${table}`);
  await reads.run(
    `insert into core.execution (execution_id, root_execution_id, catalog_id, path, version, kind, pool, status, workload,
       last_event_id, handled_through, engine_version, machine_version, start_time, open_commands)
     values (1, 1, $1, 'suite/flow', 1, 'playbook', 'shared', 'running', '{}', 1, 1, 1, 1, now(), 1)`,
    [test_.catalogId],
  );
  await reads.run(
    `insert into core.runtime (runtime_id, name, kind, status, heartbeat, registered_at) values
       (1, 'well', 'worker_pool', 'ready', now(), now() - interval '1 day'),
       (2, 'draining', 'worker_pool', 'draining', now(), now() - interval '1 day'),
       (3, 'silent', 'worker_pool', 'ready', now() - interval '70 seconds', now() - interval '1 day')`,
  );
});

interface Given {
  readonly status?: string;
  readonly worker?: string;
  /** Seconds ago. */
  readonly claimed?: number;
  readonly due?: number;
  readonly republished?: number;
  readonly parkedOn?: number;
}

async function command(id: number, given: Given = {}): Promise<void> {
  const { status = 'PENDING', worker = null, claimed = null, due = 1, republished = null, parkedOn = null } = given;
  await test_.database.reads.run(
    `insert into core.command (execution_id, command_id, event_id, catalog_id, command_key, step_name, tool_kind, pool,
       status, attempt, worker_id, claimed_at, next_wake_at, republished_at, parked_on, meta)
     values (1, $1::bigint, $1::bigint, $2, 's@' || $1::bigint, 's', 'noop', 'shared', $3, case when $4::text is null then 0 else 1 end, $4::text,
       now() - make_interval(secs => $5), now() - make_interval(secs => $6), now() - make_interval(secs => $7), $8, '{}')`,
    [id, test_.catalogId, status, worker, claimed, due, republished, parkedOn],
  );
}

function process_(name: string, leaseSeconds = 60) {
  const now = { now: Date.now };
  const counted: string[] = [];
  const meter = { count: (metric: string) => void counted.push(metric), observe() {}, gauge() {} };
  const card = { uri: null, version: '1', pid: 1, hostname: 'here' };
  const store = createLeaseStore(test_.database.reads);
  const leases = new Leases({ store, clock: now, log: quiet, meter, holder: name, card, leaseSeconds });
  const announced: number[] = [];
  const asked: string[] = [];
  const reaper = new Reaper({
    store: createSweepStore(test_.database.reads),
    leases,
    clock: now,
    log: quiet,
    meter,
    settings: SETTINGS,
    announce: (hints) => announced.push(...hints.map((hint) => hint.commandId)),
    askHolder: () => asked.push(name),
  });
  stops.push(() => leases.stop());
  return { leases, reaper, announced, asked, counted };
}

async function rows(): Promise<readonly { id: number; count: number; status: string }[]> {
  return test_.database.reads.rows(
    `select command_id as id, republish_count as count, status from core.command order by command_id`,
  );
}

describe('a sweep', () => {
  test('announces what the table of api 4.7 names, claims before the unclaimed, and leaves the rest', async () => {
    await command(1);
    await command(2, { due: -30 });
    await command(3, { republished: 10 });
    await command(4, { status: 'CLAIMED', worker: 'gone', claimed: 5 });
    await command(5, { status: 'RUNNING', worker: 'draining', claimed: 4 });
    await command(6, { status: 'RUNNING', worker: 'silent', claimed: 3 });
    await command(7, { status: 'RUNNING', worker: 'well', claimed: 2000 });
    await command(8, { status: 'RUNNING', worker: 'well', claimed: 100 });
    await command(9, { status: 'RUNNING', worker: 'gone', claimed: 100, parkedOn: 77 });
    const { reaper, announced } = process_('a');
    const swept = await reaper.sweepNow();
    expect(swept).toMatchObject({
      status: 'ok',
      report: {
        republished: 5,
        orphanedActive: 4,
        strandedPending: 1,
        byReason: { pending_too_long: 1, worker_missing: 1, worker_not_ready: 1, worker_stale: 1, hard_timeout: 1 },
        errors: 0,
      },
      lease: { name: 'command_reaper', holder: 'a', token: 1 },
    });
    expect(announced).toEqual([7, 4, 5, 6, 1]);
    const after = await rows();
    expect(after.filter((row) => row.count === 1).map((row) => row.id)).toEqual([1, 4, 5, 6, 7]);
    expect(after.map((row) => row.status)).toEqual([
      'PENDING',
      'PENDING',
      'PENDING',
      'CLAIMED',
      'RUNNING',
      'RUNNING',
      'RUNNING',
      'RUNNING',
      'RUNNING',
    ]);
    // What was announced a moment ago is not announced again.
    expect(await reaper.sweepNow()).toMatchObject({ report: { republished: 0 } });
  });

  test('CL-11 that comes back full is followed by the next at once', async () => {
    await test_.database.reads.run(
      `insert into core.command (execution_id, command_id, event_id, catalog_id, command_key, step_name, tool_kind, pool,
         next_wake_at, meta)
       select 1, n, n, $1, 's@' || n, 's', 'noop', 'shared', now() - interval '1 minute', '{}' from generate_series(1, 350) as n`,
      [test_.catalogId],
    );
    const { reaper, announced, counted } = process_('a');
    expect(await reaper.sweepNow()).toMatchObject({ report: { republished: 350, strandedPending: 350 } });
    expect(new Set(announced).size).toBe(350);
    expect(counted.filter((name) => name === 'svc_command_reaper_republished_total')).toHaveLength(350);
    expect(reaper.status().sweeps).toHaveLength(1);
  });

  test('passes over rows that a commit has locked', async () => {
    await command(1);
    await command(2);
    const { reaper, announced } = process_('a');
    await test_.database.reads.transaction(async (tx) => {
      await tx.rows('select from core.command where command_id = 1 for update');
      await reaper.sweepNow();
    });
    expect(announced).toEqual([2]);
  });

  test('leaves commands of ended executions alone', async () => {
    await command(1);
    await test_.database.reads.run(
      `update core.execution set status = 'cancelled', end_time = now(), progress = 100, open_commands = 0`,
    );
    const { reaper, announced } = process_('a');
    await reaper.sweepNow();
    expect(announced).toEqual([]);
  });
});

describe('two processes', () => {
  test('RP-01 one sweeps; the other is told who does, and asks it', async () => {
    await command(1);
    const [a, b] = [process_('a'), process_('b')];
    await a.reaper.sweepNow();
    expect(await b.reaper.sweepNow()).toMatchObject({ status: 'accepted', lease: { holder: 'a', token: 1 } });
    expect(b.asked).toEqual(['b']);
    expect(b.announced).toEqual([]);
    await test_.database.reads.run('update core.command set republished_at = null, next_wake_at = now()');
    await a.reaper.onAsked();
    expect(a.announced).toEqual([1, 1]);
  });

  test('RP-01 one that slept through its lease finds its pages refused and has written nothing', async () => {
    await command(1);
    const [a, b] = [process_('a', 0.2), process_('b')];
    const slept = (await a.leases.acquire('command_reaper')) ?? fail();
    await test_.database.reads.rows('select pg_sleep(0.3)');
    expect((await b.leases.acquire('command_reaper'))?.token).toBe(slept.token + 1);
    // It wakes up and believes what it believed before.
    const report = await a.reaper.sweep({ ...slept, isHeld: () => true }, 100);
    expect(report).toMatchObject({ republished: 0, errors: 1 });
    expect(a.announced).toEqual([]);
    expect((await rows())[0]?.count).toBe(0);
    expect(await b.reaper.sweepNow()).toMatchObject({ status: 'ok', report: { republished: 1 } });
  });

  test('RP-01 a lease cannot be taken over while a page under it is being written', async () => {
    await command(1);
    const a = process_('a', 0.2);
    const fence: Fence = (await a.leases.acquire('command_reaper')) ?? fail();
    const store = createSweepStore(test_.database.reads);
    let takeover: Promise<unknown> = Promise.resolve();
    const order: string[] = [];
    await store.page(fence, SETTINGS, 10, (found) => {
      // The end of the lease passes while the page is open; who takes it over has to wait for the page.
      takeover = test_.database.reads
        .rows('select pg_sleep(0.25)')
        .then(() => process_('b').leases.acquire('command_reaper'))
        .then(() => order.push('taken over'));
      return found.map(({ hint }) => ({ hint, nextWakeAt: new Date().toISOString() }));
    });
    order.push('written');
    await takeover;
    expect(order).toEqual(['written', 'taken over']);
    await expect(store.page(fence, SETTINGS, 10, () => [])).rejects.toBeInstanceOf(LeaseLostError);
  });
});

function fail(): never {
  throw new Error('the lease should have been had');
}
