/** The SQL endpoint as its callers meet it (reliability §5 K): which statements and schemas it takes, and what they cost. */
import { afterAll, beforeAll, expect, it, test } from 'vitest';
import { queryRows } from '../support/postgres.ts';
import { type Door, openDoor } from './in-process.ts';

let door: Door;
beforeAll(async () => {
  door = await openDoor();
  const url = new URL(door.postgres.url.replace('@/', '@socket/'));
  // The rights of a superuser: whatever holds here is not held by privileges.
  const data = {
    host: url.searchParams.get('host') ?? url.hostname,
    port: Number(url.searchParams.get('port') || url.port || 5432),
    user: url.username,
    password: decodeURIComponent(url.password),
    database: url.pathname.slice(1),
  };
  await door.call('POST', '/api/credentials', { name: 'pg_auth', type: 'postgres', data });
});
afterAll(() => door?.[Symbol.asyncDispose]());

const execute = (query: string, more: object = {}) =>
  door.call('POST', '/api/postgres/execute', { query, credential_name: 'pg_auth', ...more });
const tables = async () =>
  (
    await queryRows<{ n: number }>(
      door.postgres.url,
      `select count(*)::int as n from pg_tables where schemaname = 'core'`,
    )
  )[0]?.n;

test('SQ-03 a result of a thousand million rows costs no more than its page, and its session is gone', async () => {
  await execute('select 1');
  const before = process.memoryUsage().rss;
  const { status, json } = await execute('select generate_series(1, 1000000000) as n', { max_rows: 1000 });
  expect(status).toBe(200);
  expect(json).toMatchObject({ status: 'ok', row_count: 1000, truncated: true });
  expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1024 * 1024);
  const left = `select query from pg_stat_activity
    where datname = current_database() and application_name = 'callboard:sql' and state = 'active'`;
  for (let tries = 0; tries < 100 && (await queryRows(door.postgres.url, left)).length > 0; tries += 1)
    await new Promise((resolve) => setTimeout(resolve, 50));
  expect(await queryRows(door.postgres.url, left)).toEqual([]);
});

test('SQ-03 a statement that switches its own time-out off ends by ours, at most a moment late', async () => {
  const startedAt = performance.now();
  const stubborn = `do $$ begin set local statement_timeout = 0;
    loop begin perform pg_sleep(600); exception when query_canceled then null; end; end loop; end $$`;
  expect(await execute(stubborn, { timeout_seconds: 1 })).toMatchObject({
    status: 400,
    json: { code: 'sql_error', status: 'error', sqlstate: '57014' },
  });
  expect(performance.now() - startedAt).toBeLessThan(10_000);
  await queryRows(
    door.postgres.url,
    `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'callboard:sql'`,
  );
});

it.each([
  ['"core"', 422],
  ['x"; drop schema core cascade; --', 422],
  ['core, pg_catalog', 422],
  ['“core”', 422],
  ['core\u0000', 422],
  ["core'", 422],
  ['$user', 422],
  ['', 422],
  ['x'.repeat(200), 422],
  [7, 422],
  [['core'], 422],
  ['no_such_schema', 400],
  ['core', 200],
  ['pg_catalog', 200],
])('SQ-04 the schema %j is answered %i, and is an identifier or nothing', async (schema, status) => {
  const before = await tables();
  const answer = await execute('select current_schema() as here', { schema });
  expect(answer.status).toBe(status);
  if (status === 200) expect(answer.json).toMatchObject({ result: [{ here: schema }] });
  expect(await tables()).toBe(before);
});
