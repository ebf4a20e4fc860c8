import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SqlOutcome, SqlRunner, SqlStatement, SqlTarget } from '../../actors/sql-service.ts';
import { ensureQueryLogin, excessOf } from '../../src/store/query-login.ts';
import { createSqlRunner } from '../../src/store/sql.ts';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let postgres: TestPostgres;
let guarded: SqlRunner;
let credential: SqlTarget;
const own: SqlTarget = { kind: 'own' };
const canary = join(tmpdir(), `callboard-sql-canary-${process.pid}`);

beforeAll(async () => {
  postgres = await startTestPostgres();
  await queryRows(
    postgres.url,
    `insert into core.credential (id, name, type, data_encrypted) values (7, 'pg_auth', 'postgres', 'cb1.canary-ciphertext')`,
  );
  guarded = createSqlRunner({ ownUrl: await ensureQueryLogin(postgres.url, null), readOnly: true });
  const url = new URL(postgres.url.replace('@/', '@socket/'));
  const connection = {
    host: url.searchParams.get('host') ?? url.hostname,
    port: Number(url.searchParams.get('port') ?? url.port),
    user: url.username,
    password: decodeURIComponent(url.password),
    database: url.pathname.slice(1),
    sslMode: null,
  };
  credential = { kind: 'credential', connection };
});
afterAll(() => postgres?.stop());

describe('the login of the own database', () => {
  test('reads what is no secret', async () => {
    const rows = await ok(guarded, own, 'select id, name, type from core.credential');
    expect(rows.rows).toEqual([{ id: 7, name: 'pg_auth', type: 'postgres' }]);
    expect((await ok(guarded, own, 'select count(*) as n from core.event')).rows).toEqual([{ n: 0 }]);
    expect((await ok(guarded, own, 'select * from core.catalog')).columns).toContain('payload');
  });

  test('is told apart from one that may do more', async () => {
    expect(await excessOf(await ensureQueryLogin(postgres.url, null))).toEqual([]);
    expect(await excessOf(postgres.url)).toEqual([
      'is a superuser',
      'may read sealed data, sessions, tokens or keys',
      'may write',
    ]);
    const name = `callboard_excess_${process.pid}`;
    await queryRows(postgres.url, `create role ${name} login password 'excess' in role pg_monitor`);
    try {
      const url = new URL(postgres.url.replace('@/', '@socket/'));
      url.username = name;
      url.password = 'excess';
      expect(await excessOf(url.href.replace('@socket/', '@/'))).toEqual(['is a member of other roles']);
    } finally {
      await queryRows(postgres.url, `drop role ${name}`);
    }
  });

  test.each([
    ['sealed data', 'select data_encrypted from core.credential'],
    ['sealed data of a whole row', 'select credential from core.credential'],
    ['sealed data through a join', 'select c.data_encrypted from core.catalog k full join core.credential c on true'],
    ['sealed tokens', 'select data_encrypted from core.keychain'],
    ['renewal requests', 'select renew_config from core.keychain'],
    ['keys', 'select canary from core.encryption_key'],
    ['sessions', 'select token_hash from core.session'],
    ['tokens', 'select token_hash from core.api_token'],
    ['passwords', 'select rolpassword from pg_authid'],
    ['a partition behind its parent', 'select * from core.event_default'],
    ['statistics of sealed data', 'select stavalues1 from pg_statistic'],
    ['a whole database as one value', `select schema_to_xml('core', true, true, '')`],
  ])('does not read %s', async (_, query) => {
    await refused(query, ['42501', '42883']);
  });

  test.each([
    ['a program', `copy (select 1) to program 'touch ${canary}'`],
    ['a file to write', `copy (select 1) to '${canary}'`],
    ['a file to read into a table', `copy core.catalog from '/etc/passwd'`],
    ['a file to read', `select pg_read_file('/etc/passwd')`],
    ['a file to look at', `select pg_stat_file('/etc/passwd')`],
    ['a directory', `select pg_ls_dir('/')`],
    ['a large object from a file', `select lo_import('/etc/passwd')`],
    ['a large object', `select lo_create(0)`],
    ['an advisory lock', 'select pg_advisory_lock(1)'],
    ['an advisory lock of the transaction', `select pg_advisory_xact_lock(hashtextextended('core.execution', 1))`],
    ['an advisory lock it only tries', 'select pg_try_advisory_lock_shared(1, 2)'],
    ['another role', 'set role callboard'],
    ['another role by setting', `select set_config('role', 'callboard', false)`],
    ['another session user', 'set session authorization callboard'],
    ['an extension', 'create extension if not exists dblink'],
    ['another database', `select dblink_connect('dbname=postgres')`],
    ['a file as a table', `create foreign table core.f (a text) server files options (filename '/etc/passwd')`],
    ['a table', 'create table core.mine (a int)'],
    ['a table in public', 'create table public.mine (a int)'],
    ['a temporary table', 'create temporary table mine (a int)'],
    ['a function', `create function pg_temp.f() returns int language sql as 'select 1'`],
    ['code', 'do $$ begin loop end loop; end $$'],
    ['a change', `update core.credential set name = 'x'`],
    ['a removal', 'delete from core.event'],
    ['a row lock', 'select id from core.credential for update'],
    ['a table lock', 'lock table core.event in access exclusive mode'],
    ['partitions', 'select core.ensure_partitions(1, 1)'],
    ['another session', 'select pg_terminate_backend(1)'],
    ['a setting of the server', `alter system set fsync = off`],
    ['a setting for its next session', `alter role callboard_query set statement_timeout = 0`],
  ])('SQ-01 does not get %s', async (_, query) => {
    await refused(query);
    expect(existsSync(canary)).toBe(false);
  });

  test('does not write after it has made its session writable', async () => {
    const opening = `select set_config('transaction_read_only', 'off', false), set_config('default_transaction_read_only', 'off', false)`;
    const first = await guarded.run(own, statement(opening));
    expect(first.ok).toBe(false);
    await ok(guarded, own, 'commit');
    await refused(`insert into core.test_suite (suite_id, playbook_path, tests) values ('x', 'x', '[]')`, [
      '42501',
      '25006',
    ]);
  });

  test('SQ-01 is who it was after it gave up a role', async () => {
    for (const query of ['reset role', 'set session authorization default', 'reset all'])
      await guarded.run(own, statement(query));
    expect((await ok(guarded, own, 'select current_user as me, session_user as login')).rows).toEqual([
      { me: 'callboard_query', login: 'callboard_query' },
    ]);
  });

  test('takes one statement and no second', async () => {
    await refused('select 1; select 2', ['42601']);
    await refused('rollback; delete from core.event', ['42601']);
    await refused(`select 1; copy (select 1) to program 'touch ${canary}'`, ['42601']);
  });

  test('has no role it could become, whatever was granted by hand', async () => {
    await queryRows(postgres.url, 'grant pg_read_all_data to callboard_query');
    await queryRows(postgres.url, 'grant select on core.api_token to callboard_query');
    await ok(guarded, own, 'select token_hash from core.api_token');
    await ensureQueryLogin(postgres.url, null);
    await refused('select token_hash from core.api_token', ['42501']);
  });

  test('is made once by servers that start together', async () => {
    const urls = await Promise.all([1, 2, 3].map(() => ensureQueryLogin(postgres.url, null)));
    expect(new Set(urls).size).toBe(1);
  });
});

describe('a statement through a credential', () => {
  test('reads and writes, and leaves nothing behind in a session', async () => {
    await ok(guarded, credential, 'create schema "Odd name"');
    const inOdd = { schema: 'Odd name' };
    await ok(guarded, credential, 'create table things (id int, name text)', inOdd);
    const inserted = await ok(guarded, credential, 'insert into things values ($1, $2), ($3, $4)', {
      ...inOdd,
      parameters: [1, "o'ne", 2, null],
    });
    expect([inserted.rows, inserted.rowCount, inserted.columns]).toEqual([[], 2, []]);
    const returned = await ok(guarded, credential, 'update things set id = id + 1 returning id', inOdd);
    expect([returned.rows, returned.rowCount]).toEqual([[{ id: 2 }, { id: 3 }], 2]);
    await ok(guarded, credential, `set search_path to "Odd name"`);
    expect(await guarded.run(credential, statement('select * from things'))).toMatchObject({
      ok: false,
      sqlstate: '42P01',
    });
    await ok(guarded, credential, 'vacuum things', inOdd);
  });

  test('needs a schema that exists', async () => {
    const hostile = '"x"; drop schema core cascade; --';
    for (const schema of ['nowhere', hostile]) {
      expect(await guarded.run(credential, statement('select 1', { schema }))).toMatchObject({
        ok: false,
        sqlstate: '3F000',
      });
    }
    await ok(guarded, credential, 'select count(*) from core.catalog');
  });

  test('gives values as the postgres tool does', async () => {
    const { rows } = await ok(
      guarded,
      credential,
      `select 1::int2 as small, 9007199254740991 as exact, 9007199254740993 as inexact, 0.10 as num,
         12345678901234567890.5 as wide, 'NaN'::numeric as nan, 1.5::float8 as float, 'infinity'::float8 as inf,
         true as yes, null::text as none, '{"a": [1, 12345678901234567891]}'::jsonb as json,
         timestamptz '2026-01-02 03:04:05.678901+02' as at, timestamp '2026-01-02 03:04:05' as local, date '2026-01-02' as day,
         '\\x00ff'::bytea as bytes, array[1, null, 3] as ints, array[array['a,"b'], array['NULL']] as texts,
         array['x']::name[] as names, 'infinity'::timestamptz as never, interval '1 day 2 hours' as gap`,
    );
    expect(rows).toEqual([
      {
        small: 1,
        exact: 9007199254740991,
        inexact: '9007199254740993',
        num: 0.1,
        wide: '12345678901234567890.5',
        nan: null,
        float: 1.5,
        inf: null,
        yes: true,
        none: null,
        json: { a: [1, '12345678901234567891'] },
        at: '2026-01-02T01:04:05.678901Z',
        local: '2026-01-02T03:04:05',
        day: '2026-01-02',
        bytes: 'AP8=',
        ints: [1, null, 3],
        texts: [['a,"b'], ['NULL']],
        names: ['x'],
        never: 'infinity',
        gap: '1 day 02:00:00',
      },
    ]);
  });

  test('takes parameters of every JSON type', async () => {
    const query =
      'select $1::text as a, $2::int as b, $3::bool as c, $4::jsonb as d, $5::int[] as e, $6::text[] as f, $7::text as g';
    const parameters = ["it's", 5, true, { x: [1] }, [1, null], ['a"b\\', 'c,d'], null];
    expect((await ok(guarded, credential, query, { parameters })).rows).toEqual([
      { a: "it's", b: 5, c: true, d: { x: [1] }, e: [1, null], f: ['a"b\\', 'c,d'], g: null },
    ]);
  });

  test('SQ-03 stops at the wanted number of rows and says so', async () => {
    const series = 'select n from generate_series(1, 250) as n';
    const cut = await ok(guarded, credential, series, { maxRows: 120 });
    expect([cut.rowCount, cut.truncated, cut.rows.at(-1)]).toEqual([120, true, { n: 120 }]);
    const whole = await ok(guarded, credential, series, { maxRows: 250 });
    expect([whole.rowCount, whole.truncated]).toEqual([250, false]);
    expect(
      (await ok(guarded, credential, 'select generate_series(1, 1000000000) as n', { maxRows: 1 })).rows,
    ).toHaveLength(1);
  });

  test('SQ-03 stops at 16 MiB of values, and at a single value that is larger than all of it', async () => {
    const wide = await ok(guarded, credential, `select repeat('x', 1024 * 1024) as x from generate_series(1, 30)`, {
      maxRows: 100,
    });
    expect([wide.rowCount, wide.truncated]).toEqual([16, true]);
    const huge = await guarded.run(credential, statement(`select repeat('x', 200 * 1024 * 1024) as x`));
    expect(huge).toMatchObject({ ok: false, sqlstate: '54000' });
  });

  test('SQ-03 ends in time, whatever it does to the clock of the server', async () => {
    const late = { ok: false, sqlstate: '57014' };
    expect(await guarded.run(own, statement('select pg_sleep(20)', { timeoutSeconds: 0.2 }))).toMatchObject(late);
    expect(await guarded.run(credential, statement('select pg_sleep(20)', { timeoutSeconds: 0.2 }))).toMatchObject(
      late,
    );
    const stubborn = `do $$ begin perform set_config('statement_timeout', '0', false);
      loop begin perform pg_sleep(20); exception when query_canceled then null; end; end loop; end $$`;
    const began = performance.now();
    expect(await guarded.run(credential, statement(stubborn, { timeoutSeconds: 0.2 }))).toMatchObject(late);
    expect(performance.now() - began).toBeLessThan(5000);
    await queryRows(
      postgres.url,
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name = 'callboard:sql'`,
    );
  });

  test.each([
    ['a bad cast', 'select $1::text::int', '22P02'],
    ['a bad literal', `select 'canary-value'::int`, '22P02'],
    ['a bad date', `select 'canary-value'::date`, '22007'],
    ['a bad JSON', `select '{"canary-value": }'::jsonb`, '22P02'],
    ['an exception', `do $$ begin raise exception 'canary-value is bad'; end $$`, 'P0001'],
    ['a duplicate', `with a as (select 1) insert into core.resource (name) values ('playbook')`, '23505'],
    ['a syntax error at a literal', `select 1 'canary-value'`, '42601'],
    ['an open literal', `select 'canary-value`, '42601'],
    ['an unknown table', 'select * from no_such_table_here', '42P01'],
  ])('names no value when it fails on %s', async (_, query, sqlstate) => {
    const parameters = query.includes('$1') ? ['canary-value'] : [];
    const outcome = await guarded.run(credential, statement(query, { parameters }));
    expect(outcome).toMatchObject({ ok: false, sqlstate });
    expect(JSON.stringify(outcome)).not.toContain('canary-value');
  });

  test('helps with names', async () => {
    const outcome = await guarded.run(credential, statement('select * from no_such_table_here'));
    expect(outcome).toMatchObject({ message: 'relation "no_such_table_here" does not exist' });
  });

  test.each([[[]], [['canary-value', 2]]])('helps with the number of parameters (%j)', async (parameters) => {
    const outcome = await guarded.run(credential, statement('select $1::text', { parameters }));
    const message = `bind message supplies ${parameters.length} parameters, but prepared statement "" requires 1`;
    expect(outcome).toMatchObject({ ok: false, sqlstate: '08P01', message });
  });

  test('cannot copy to or from its client', async () => {
    expect(await guarded.run(credential, statement('copy (select 1) to stdout'))).toMatchObject({
      ok: false,
      sqlstate: '0A000',
    });
    expect(await guarded.run(credential, statement('copy core.catalog from stdin'))).toMatchObject({ ok: false });
  });

  test('may be empty', async () => {
    expect(await ok(guarded, credential, '-- nothing')).toMatchObject({ rows: [], rowCount: 0, columns: [] });
  });

  test('says that a server cannot be reached, without the address', async () => {
    if (credential.kind !== 'credential') throw new Error('the target of this test is a credential');
    const away: SqlTarget = {
      kind: 'credential',
      connection: { ...credential.connection, host: '127.0.0.1', port: 1 },
    };
    const outcome = await guarded.run(away, statement('select 1'));
    expect(outcome).toEqual({
      ok: false,
      message: 'The database of the statement cannot be reached',
      sqlstate: '08001',
    });
  });
});

describe('many statements', () => {
  test('wait for the two that run, and the rest is refused', async () => {
    const calls = Array.from({ length: 40 }, () => guarded.run(own, statement('select 1 as one')));
    const settled = await Promise.allSettled(calls);
    const refusals = settled.filter((each) => each.status === 'rejected');
    expect(refusals).toHaveLength(6);
    expect(refusals[0]?.reason).toMatchObject({ name: 'UnavailableError', reason: 'pool_saturated' });
    await ok(guarded, own, 'select 1');
  });
});

function statement(query: string, more: Partial<SqlStatement> = {}): SqlStatement {
  return { query, parameters: [], schema: null, maxRows: 1000, timeoutSeconds: 10, ...more };
}

async function ok(runner: SqlRunner, target: SqlTarget, query: string, more: Partial<SqlStatement> = {}) {
  const outcome: SqlOutcome = await runner.run(target, statement(query, more));
  if (!outcome.ok) throw new Error(`${outcome.sqlstate} ${outcome.message}: ${query}`);
  return outcome;
}

async function refused(query: string, sqlstates?: readonly string[]): Promise<void> {
  const outcome = await guarded.run(own, statement(query));
  if (outcome.ok) throw new Error(`it ran: ${query}`);
  if (sqlstates !== undefined) expect(sqlstates).toContain(outcome.sqlstate);
}
