import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { migrate, readMigrations, SchemaError } from '../../src/store/migrate.ts';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let database: TestPostgres;

beforeAll(async () => {
  database = await startTestPostgres({ migrated: false });
});
afterAll(() => database.stop());

describe('migrate', () => {
  test('brings an empty database to the newest version, once, however many processes try', async () => {
    const all = await readMigrations();
    const reports = await Promise.all([migrate(database.url), migrate(database.url), migrate(database.url)]);
    expect(reports.map((report) => report.version)).toEqual(Array(3).fill(all.at(-1)?.version));
    expect(reports.flatMap((report) => report.applied)).toEqual(all.map((migration) => migration.name));
  });

  test('leaves the default partitions empty by giving ids partitions before they are used', async () => {
    const rows = await queryRows<{ bound: string }>(
      database.url,
      `select pg_get_expr(c.relpartbound, c.oid) as bound from pg_inherits i join pg_class c on c.oid = i.inhrelid
       where i.inhparent = 'core.event'::regclass order by 1`,
    );
    expect(rows.map((row) => row.bound)).toEqual([
      'DEFAULT',
      "FOR VALUES FROM ('0') TO ('4194304')",
      "FOR VALUES FROM ('4194304') TO ('8388608')",
      "FOR VALUES FROM ('8388608') TO ('12582912')",
    ]);
    expect(await queryRows(database.url, 'select core.ensure_partitions(4194304, 3) as made')).toEqual([{ made: 1 }]);
    expect(await queryRows(database.url, 'select core.ensure_partitions(4194304, 3) as made')).toEqual([{ made: 0 }]);
  });

  test('tolerates a newer step that old servers can run with, and refuses a breaking one', async () => {
    await queryRows(database.url, `insert into core.schema_migration values (9001, 'later', false, now(), 'x')`);
    expect((await migrate(database.url)).version).toBe(9001);
    await queryRows(database.url, `insert into core.schema_migration values (9002, 'later still', true, now(), 'x')`);
    await expect(migrate(database.url)).rejects.toThrow(SchemaError);
    await expect(migrate(database.url)).rejects.toThrow(/start the newer build/);
    await queryRows(database.url, 'delete from core.schema_migration where version > 9000');
  });

  test('notices a file that was edited after it was applied', async () => {
    await queryRows(database.url, `update core.schema_migration set checksum = 'other' where version = 1`);
    await expect(migrate(database.url)).rejects.toThrow(/differs from the one the database was built with/);
  });
});
