import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BatchJob, RefusedWriteError } from '../../actors/ports.ts';
import { type Boss, startBoss } from '../../src/jobs/boss.ts';
import { createBatchStore } from '../../src/store/batches.ts';
import { createStore } from '../../src/store/store.ts';
import { event, execution, flush, NO_BATCHES } from '../conformance/rows.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { queryRows, quiet } from '../support/postgres.ts';
import { batchRow, describeBatchStore } from './batch-suite.ts';

let id = 10_000;
const nextId = () => {
  id += 1;
  return id;
};

describeBatchStore('batches on PostgreSQL', async () => {
  const opened = await openTestDatabase();
  return {
    store: createStore(opened.database),
    batches: createBatchStore(opened.database),
    catalogId: opened.catalogId,
    nextId,
    close: () => opened.close(),
  };
});

let opened: TestDatabase;
let boss: Boss;
beforeAll(async () => {
  opened = await openTestDatabase();
  boss = await startBoss(opened.url, quiet);
});
afterAll(async () => {
  await boss.stop();
  await opened.close();
});

const jobs = async () =>
  (
    await queryRows<{ id: number }>(
      opened.url,
      `select (data ->> 'request_id')::int as id from core_jobs.job order by 1`,
    )
  ).map((row) => row.id);

async function accepted(store = createStore(opened.database, boss.statements)) {
  const executionId = nextId();
  const row = execution(executionId, opened.catalogId, { path: `suite/${executionId}` });
  const batch = batchRow(executionId, nextId(), { idempotencyKey: 'k' });
  const job: BatchJob = { requestId: batch.requestId, executionId };
  const rows = flush({
    started: [row],
    events: [event(executionId, opened.catalogId, 1)],
    batches: { ...NO_BATCHES, accepted: [batch], jobs: [job] },
  });
  return { store, rows, job, executionId };
}

test('a job is in the queue when the commit that made it is, and not when it is refused', async () => {
  const { store, rows, job } = await accepted();
  await store.commit(rows);
  expect(await jobs()).toContain(job.requestId);
  const before = await jobs();
  await expect(store.commit(rows)).rejects.toThrow();
  expect(await jobs()).toEqual(before);
});

test('a job that cannot be queued refuses the whole write, and says so', async () => {
  const broken = createStore(opened.database, async () => [
    { name: 'no_queue', text: 'insert into core_jobs.nowhere values (1)', values: [] },
  ]);
  const { rows, executionId } = await accepted();
  const refusal = await broken.commit(rows).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(RefusedWriteError);
  expect(refusal).toMatchObject({ reason: 'enqueue' });
  expect(await createStore(opened.database).execution(executionId)).toBeNull();
});

/** What the workers of the tests below are given; a first try of some is rejected. */
const tries = new Map<number, number>();
const waiting = new Map<number, () => void>();
const delivered = (requestId: number) => new Promise<void>((resolve) => waiting.set(requestId, resolve));

test('workers get what was queued before them and after, and once more what they reject', async () => {
  const [before, after] = [await accepted(), await accepted()];
  const both = Promise.all([delivered(before.job.requestId), delivered(after.job.requestId)]);
  await before.store.commit(before.rows);
  await boss.work(2, async ({ requestId }) => {
    tries.set(requestId, (tries.get(requestId) ?? 0) + 1);
    if (requestId === before.job.requestId && tries.get(requestId) === 1) throw new Error('not yet');
    waiting.get(requestId)?.();
  });
  await after.store.commit(after.rows);
  boss.wake();
  await both;
  expect(tries.get(before.job.requestId)).toBe(2);
  expect(boss.state()).toBe('ok');
});

test('a queue whose connections are cut goes on, and the process lives', async () => {
  const { store, rows, job } = await accepted();
  const goes = delivered(job.requestId);
  await queryRows(
    opened.url,
    `select pg_terminate_backend(pid) from pg_stat_activity
     where application_name = 'callboard:jobs' and datname = current_database()`,
  );
  await store.commit(rows);
  boss.wake();
  await goes;
});
