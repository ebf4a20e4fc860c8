/** Room for new ids, and the end of old executions: nothing that runs is touched, and an old lease removes nothing. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { LeaseLostError } from '../../actors/lease.ts';
import { createLeaseStore } from '../../src/store/leases.ts';
import { createHousekeepingStore } from '../../src/store/partitions.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';

let opened: TestDatabase;
beforeAll(async () => {
  opened = await openTestDatabase();
});
afterAll(() => opened.close());
beforeEach(async () => {
  await opened.database.reads.transaction(async (tx) => {
    await tx.rows(`select set_config('callboard.retention', 'on', true)`);
    for (const table of ['event', 'execution']) await tx.run(`delete from core.${table}`);
  });
});

const SPAN = 4_194_304;

async function execution(id: number, root: number, endedDaysAgo: number | null): Promise<void> {
  await opened.database.reads.run(
    `insert into core.execution (execution_id, root_execution_id, catalog_id, path, version, kind, pool, status, workload,
       last_event_id, handled_through, engine_version, machine_version, start_time, end_time, progress)
     values ($1, $2, $3, 'suite/flow', 1, 'playbook', 'shared', case when $4::int is null then 'running' else 'completed' end,
       '{}', 1, 1, 1, 1, now() - interval '90 days', now() - make_interval(days => $4::int),
       case when $4::int is null then 0 else 100 end)`,
    [id, root, opened.catalogId, endedDaysAgo],
  );
  await opened.database.reads.run(
    `insert into core.event (execution_id, event_id, cause_id, catalog_id, event_type, status, node_name)
     values ($1, 1, 1, $2, 'execution.started', 'running', 'p')`,
    [id, opened.catalogId],
  );
}

async function fence() {
  return createLeaseStore(opened.database.reads).take('partitions', 'a', 60);
}

async function left(): Promise<readonly number[]> {
  const rows = await opened.database.reads.rows<{ id: number }>(
    `select execution_id as id from core.execution union select execution_id from core.event order by id`,
  );
  return rows.map((row) => row.id);
}

test('ended executions go after their time, trees as a whole, running ones never', async () => {
  await execution(1, 1, 40);
  await execution(2, 2, 10);
  await execution(3, 3, null);
  await execution(4, 4, 40);
  await execution(5, 4, null);
  await execution(6, 6, 40);
  await execution(7, 6, 35);
  const store = createHousekeepingStore(opened.database.reads);
  expect(await store.removeEnded(await fence(), 30, 1000)).toBe(3);
  expect(await left()).toEqual([2, 3, 4, 5]);
  // A part of a day is a time like any other.
  expect(await store.removeEnded(await fence(), 10.5, 1000)).toBe(0);
  expect(await store.removeEnded(await fence(), 9.5, 1000)).toBe(1);
});

test('a partition goes at once when all in it ended long ago and its ids are given out', async () => {
  const store = createHousekeepingStore(opened.database.reads);
  await execution(1, 1, 40);
  await execution(SPAN + 1, SPAN + 1, 10);
  expect(await store.dropEndedPartition(await fence(), 30)).toBe(false);
  await opened.database.reads.rows(`select setval('core.id_seq', $1)`, [SPAN + 2000]);
  expect(await store.ensurePartitions(await fence(), SPAN, 2)).toBeGreaterThan(0);
  expect(await store.dropEndedPartition(await fence(), 30)).toBe(true);
  expect(await store.dropEndedPartition(await fence(), 30)).toBe(false);
  expect(await left()).toEqual([SPAN + 1]);
  const tables = await opened.database.reads.rows<{ name: string | null }>(
    `select to_regclass('core.event_p0') as name union select to_regclass('core.command_p0')`,
  );
  expect(tables).toEqual([{ name: null }]);
  expect(await store.defaultRows()).toBe(0);
});

test('an old lease removes nothing', async () => {
  await execution(SPAN + 9, SPAN + 9, 40);
  const old = await fence();
  await fence();
  const store = createHousekeepingStore(opened.database.reads);
  await expect(store.removeEnded(old, 30, 1000)).rejects.toBeInstanceOf(LeaseLostError);
  await expect(store.ensurePartitions(old, SPAN, 2)).rejects.toBeInstanceOf(LeaseLostError);
  expect(await left()).toEqual([SPAN + 9]);
});
