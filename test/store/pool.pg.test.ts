import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { UnavailableError } from '../../actors/ports.ts';
import { createClock } from '../../src/clock.ts';
import { createIds } from '../../src/store/ids.ts';
import { createDatabase } from '../../src/store/pool.ts';
import { createStore } from '../../src/store/store.ts';
import { databaseConfig, openTestDatabase, type TestDatabase } from '../support/database.ts';
import { queryRows, quiet } from '../support/postgres.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await openTestDatabase();
});
afterAll(() => db.close());

const breakAll = () =>
  queryRows(
    db.url,
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name like 'callboard:%'`,
  );

describe('sessions', () => {
  test('limit how long anything waits, on the pool and on the pipelines', async () => {
    const text = `select name, setting from pg_settings where name in
      ('idle_in_transaction_session_timeout', 'statement_timeout', 'lock_timeout', 'TimeZone', 'synchronous_commit')
      order by lower(name)`;
    const expected = [
      { name: 'idle_in_transaction_session_timeout', setting: '10000' },
      { name: 'lock_timeout', setting: '5000' },
      { name: 'statement_timeout', setting: '30000' },
      { name: 'synchronous_commit', setting: 'on' },
      { name: 'TimeZone', setting: 'UTC' },
    ];
    expect(await db.database.reads.rows(text)).toEqual(expected);
    for (const pipeline of [...db.database.hot.commits, db.database.hot.lookups]) {
      expect((await pipeline.send([{ name: 'settings', text, values: [] }]))[0]?.rows).toEqual(expected);
    }
    const names = await queryRows(
      db.url,
      `select distinct application_name as name from pg_stat_activity
       where datname = current_database() and application_name like 'callboard:%' order by 1`,
    );
    expect(names).toEqual([{ name: 'callboard:commit' }, { name: 'callboard:lookup' }, { name: 'callboard:reads' }]);
  });

  test('read ids as numbers and instants as ISO text with milliseconds', async () => {
    const rows = await db.database.reads.rows(
      `select 9007199254740991::bigint as id, array[1, 2]::bigint[] as ids, '{}'::bigint[] as none,
         '2026-11-20 11:15:02.1+01'::timestamptz as at, '2026-11-20T10:15:02.123456Z'::timestamptz as fine,
         'infinity'::timestamptz as never, null::timestamptz as empty`,
    );
    expect(rows).toEqual([
      {
        id: Number.MAX_SAFE_INTEGER,
        ids: [1, 2],
        none: [],
        at: '2026-11-20T10:15:02.100Z',
        fine: '2026-11-20T10:15:02.123Z',
        never: 'infinity',
        empty: null,
      },
    ]);
  });
});

describe('the pool', () => {
  test('refuses more waiting callers than it is allowed to keep', async () => {
    const small = createDatabase(
      databaseConfig(db.url, { poolMax: 1, waitingMax: 1, acquireTimeoutSeconds: 0.2 }),
      quiet,
    );
    await small.reads.transaction(async () => {
      const waiting = small.reads.rows('select 1');
      await expect(small.reads.rows('select 1')).rejects.toMatchObject({ reason: 'pool_saturated' });
      await expect(waiting).rejects.toMatchObject({ reason: 'pool_saturated' });
    });
    expect(await small.reads.rows('select 1 as one')).toEqual([{ one: 1 }]);
    expect(small.reads.status()).toEqual({ min: 0, max: 1, size: 1, available: 1, waiting: 0 });
    await small.close();
  });

  test('rolls a transaction back when its work throws, and when it hides a failure', async () => {
    const { reads } = db.database;
    const insert = `insert into core.test_suite (suite_id, playbook_path, tests) values ('s', 'p', '[]')`;
    await expect(
      reads.transaction(async (tx) => {
        await tx.run(insert);
        throw new Error('changed my mind');
      }),
    ).rejects.toThrow('changed my mind');
    await expect(
      reads.transaction(async (tx) => {
        await tx.run(insert);
        await tx.run('select 1 / 0').catch(() => {});
      }),
    ).rejects.toThrow('the transaction was aborted');
    expect(await reads.rows('select from core.test_suite')).toEqual([]);
  });

  test('says unavailable when nobody answers at the address', async () => {
    const nowhere = createDatabase(databaseConfig('postgres://nobody@127.0.0.1:1/none'), quiet);
    await expect(nowhere.reads.rows('select 1')).rejects.toThrow(UnavailableError);
    await expect(createStore(nowhere).execution(1)).rejects.toThrow(UnavailableError);
    await nowhere.close();
  });

  test('leaves what the database refuses as it is', async () => {
    await expect(db.database.reads.rows('select 1 / 0')).rejects.toMatchObject({ code: '22012' });
  });
});

describe('after its connections were cut', () => {
  test('idle ones harm nobody and the next use connects anew', async () => {
    const store = createStore(db.database);
    await Promise.all([db.database.reads.rows('select 1'), store.execution(1), store.nextWakeAt()]);
    await breakAll();
    const attempt = async () => {
      await store.execution(1);
      await db.database.reads.rows('select 1');
    };
    // The news of the cut may come with the first use of each connection.
    for (let use = 0; use < 3; use += 1) {
      await attempt().catch((error: unknown) => expect(error).toBeInstanceOf(UnavailableError));
    }
    await attempt();
  });

  test('statements under way are unavailable', async () => {
    const pipeline = db.database.hot.lookups;
    const asleep = pipeline.send([{ name: 'sleep', text: 'select pg_sleep(28)', values: [] }]);
    const failures = Promise.all([
      expect(asleep).rejects.toThrow(UnavailableError),
      expect(db.database.reads.rows('select pg_sleep(28)')).rejects.toThrow(UnavailableError),
    ]);
    const sleeping = `select from pg_stat_activity
      where datname = current_database() and query like 'select pg_sleep%' and state = 'active'`;
    while ((await queryRows(db.url, sleeping)).length < 2) await new Promise((resolve) => setTimeout(resolve, 20));
    await breakAll();
    await failures;
    expect(await db.database.reads.rows('select 1 as one')).toEqual([{ one: 1 }]);
  });
});

describe('ids', () => {
  test('are distinct across processes and never wait once reserved', async () => {
    const [one, other] = [createIds(db.database), createIds(db.database)];
    await Promise.all([one.reserve(2_500), other.reserve(10)]);
    const taken = [...Array.from({ length: 2_500 }, one.next), ...Array.from({ length: 10 }, other.next)];
    expect(new Set(taken).size).toBe(2_510);
    expect(taken.every((id) => Number.isSafeInteger(id) && id > 0)).toBe(true);
  });

  test('are fetched before a block runs out', async () => {
    const ids = createIds(db.database);
    const taken = new Set<number>();
    for (let round = 0; round < 40; round += 1) {
      await ids.reserve(100);
      for (let n = 0; n < 100; n += 1) taken.add(ids.next());
    }
    expect(taken.size).toBe(4_000);
  });

  test('cannot be taken unreserved', () => {
    expect(() => createIds(db.database).next()).toThrow('ids must be reserved');
  });
});

test('the clock is the time of the database and never runs backwards', async () => {
  const clock = await createClock(db.database);
  const readings = Array.from({ length: 1_000 }, () => clock.now());
  expect(readings).toEqual([...readings].sort((a, b) => a - b));
  const before = clock.now();
  const [row] = await db.database.reads.rows<{ at: string }>('select clock_timestamp() as at');
  const after = clock.now();
  expect(Date.parse(row?.at ?? '')).toBeGreaterThanOrEqual(before - 50);
  expect(Date.parse(row?.at ?? '')).toBeLessThanOrEqual(after + 50);
  clock.stop();
});
