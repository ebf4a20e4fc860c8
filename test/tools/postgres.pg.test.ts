import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json, JsonMap } from '../../machines/json.ts';
import type { ToolCall } from '../../src/tools/tool.ts';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';
import { failed, openTools, succeeded } from './harness.ts';

const tools = openTools({ httpMaxResponseBytes: 1_000_000 });
let database: TestPostgres;
beforeAll(async () => {
  database = await startTestPostgres({ migrated: false });
});
afterAll(async () => {
  await tools[Symbol.asyncDispose]();
  await database.stop();
});

const run = (command: string, fields: JsonMap = {}, more: Partial<ToolCall> = {}) =>
  tools.run('postgres', { command, ...fields }, { auth: credential(), ...more });
const data = async (command: string, fields: JsonMap = {}) => succeeded(await run(command, fields)).data as JsonMap;

/** The test's database as a stored credential; a server on a socket is named by its folder. */
function credential() {
  return { name: 'db', type: 'postgres', data: { connection_string: database.url } };
}

describe('a postgres task', () => {
  it('answers with the rows of its last statement and every statement by number', async () => {
    const result = await data(`
      -- a comment; with a semicolon
      create table if not exists notes (id int primary key, note text, body jsonb);
      insert into notes values (1, 'semi;colon', '{"k": [1, 2]}'), (2, 'it''s', null);
      select id, note, body from notes order by id;`);
    const rows = [
      { id: 1, note: 'semi;colon', body: { k: [1, 2] } },
      { id: 2, note: "it's", body: null },
    ];
    const columns = ['id', 'note', 'body'];
    expect(result).toEqual({
      status: 'success',
      rows,
      columns,
      row_count: 2,
      statement_count: 3,
      command_0: { status: 'success', rows: [], columns: [], row_count: 0 },
      command_1: { status: 'success', rows: [], columns: [], row_count: 2 },
      command_2: { status: 'success', rows, columns, row_count: 2 },
    });
  });

  it('tells what changed when its last statement returns no rows', async () => {
    await data('create table counted (id int); insert into counted select generate_series(1, 5)');
    expect(await data('update counted set id = id + 1 where id > 2')).toMatchObject({
      rows: [],
      columns: [],
      row_count: 3,
      affected_rows: 3,
      statement_count: 1,
    });
    const returning = await data('delete from counted where id = 1 returning id');
    expect(returning).toMatchObject({ rows: [{ id: 1 }], row_count: 1 });
    expect(returning).not.toHaveProperty('affected_rows');
    expect(await data('select id from counted where false')).toMatchObject({ rows: [], columns: ['id'], row_count: 0 });
  });

  it('answers with lists when it is asked to', async () =>
    expect(await data('select 1 as a, 2 as b', { as_objects: 'false' })).toMatchObject({
      rows: [[1, 2]],
      columns: ['a', 'b'],
    }));

  it('makes every type JSON', async () => {
    const { rows } = await data(`
      create type mood as enum ('sad', 'ok');
      create domain whole as int;
      select 1::int2 as i2, 2147483647 as i4, 9007199254740991 as i8, 9223372036854775807 as big, 1.10::numeric as n,
        12345678901234567890.5::numeric as wide, 1.5::float8 as f, 'nan'::float8 as nan, 'infinity'::float4 as inf,
        true as b, '{"a": 12345678901234567890}'::json as j, '[null]'::jsonb as jb,
        '2024-05-01 12:30:00.25+02'::timestamptz as tz, '2024-05-01 12:30'::timestamp as ts, '2024-05-01'::date as d,
        '12:30'::time as t, '1 day 2 hours'::interval as iv, '6f1e9c0e-3d5b-4a57-9d9c-0d5c3c1f5b11'::uuid as u,
        'ok'::mood as e, '\\x00ff'::bytea as by, array[1, null] as ai, array['a,b', '"'] as at, array['ok']::mood[] as ae,
        array[[1], [2]] as nested, 7::whole as dom, null as none, 'x'::"char" as c, '(1,2)'::point as p`);
    expect((rows as Json[])[0]).toEqual({
      i2: 1,
      i4: 2147483647,
      i8: 9007199254740991,
      big: '9223372036854775807',
      n: 1.1,
      wide: '12345678901234567890.5',
      f: 1.5,
      nan: null,
      inf: null,
      b: true,
      j: { a: '12345678901234567890' },
      jb: [null],
      tz: '2024-05-01T10:30:00.25Z',
      ts: '2024-05-01T12:30:00',
      d: '2024-05-01',
      t: '12:30:00',
      iv: '1 day 02:00:00',
      u: '6f1e9c0e-3d5b-4a57-9d9c-0d5c3c1f5b11',
      e: 'ok',
      by: 'AP8=',
      ai: [1, null],
      at: ['a,b', '"'],
      ae: ['ok'],
      nested: [[1], [2]],
      dom: 7,
      none: null,
      c: 'x',
      p: '(1,2)',
    });
  });

  it('reads times the same way whatever the session prefers', async () => {
    const { rows } = await data(`set timezone = 'Asia/Kolkata'; select '2024-05-01 12:00:00+00'::timestamptz as at`);
    expect(rows).toEqual([{ at: '2024-05-01T12:00:00Z' }]);
  });

  it('takes parameters for a single statement', async () => {
    const params = [1, "it's", { a: [1] }, [1, 2], null];
    const { rows } = await data('select $1::int as a, $2::text as b, $3::jsonb as c, $4::int[] as d, $5::text as e', {
      params,
    });
    expect(rows).toEqual([{ a: 1, b: "it's", c: { a: [1] }, d: [1, 2], e: null }]);
    const { rows: json } = await data('select $1::jsonb as a', { parameters: [[{ b: 1 }]] });
    expect(json).toEqual([{ a: [{ b: 1 }] }]);
  });

  it('has its schema as search path, quoted', async () => {
    await data('create schema "odd ""name"; create table "odd ""name".t as select 1 as a');
    expect(await data('select a from t', { schema: 'odd "name' })).toMatchObject({ rows: [{ a: 1 }] });
    expect(failed(await run('select a from t')).error.code).toBe('42P01');
  });

  it('commits each statement by itself', async () => {
    const outcome = failed(
      await run('create table kept (a int); insert into kept values (1); select 1/0; drop table kept'),
    );
    expect(outcome.error).toMatchObject({ kind: 'schema', code: '22012' });
    expect(outcome.error.message).toBe('division by zero (statement 3 of 4)');
    expect(await data('select count(*) as n from kept')).toMatchObject({ rows: [{ n: 1 }] });
  });

  it('leaves no setting, table or transaction to the next', async () => {
    await data(`set work_mem = '123kB'; create temp table mine (a int); begin; create table lost (a int)`);
    const { rows } = await data(
      `select to_regclass('mine') as mine, to_regclass('lost') as lost, current_setting('work_mem') as mem`,
    );
    expect(rows).toMatchObject([{ mine: null, lost: null }]);
    expect((rows as JsonMap[])[0]?.['mem']).not.toBe('123kB');
  });

  it('can run a transaction of its own', async () => {
    expect(
      failed(await run('create table tx (a int); begin; insert into tx values (1); select 1/0; commit')).error.code,
    ).toBe('22012');
    expect(await data('begin; insert into tx values (2); commit; select a from tx')).toMatchObject({
      rows: [{ a: 2 }],
    });
  });

  it('keeps columns with the names of prototypes as data', async () => {
    const outcome = failed(await run('select 1 as "__proto__"'));
    expect(outcome.error).toMatchObject({ kind: 'schema', code: 'RESULT_NOT_STORABLE' });
  });

  it('takes its statements from a script', async () => {
    const script = { source: { type: 'inline', code: 'select 5 as a' } };
    const outcome = await tools.run('postgres', { script }, { auth: credential() });
    expect(succeeded(outcome).data).toMatchObject({ rows: [{ a: 5 }] });
  });

  it('goes side by side with thirty others over a few connections', async () => {
    const runs = Array.from({ length: 31 }, (_, n) => data(`select ${n} as n from pg_sleep(0.01)`));
    const results = await Promise.all(runs);
    expect(results.map(({ rows }) => (rows as JsonMap[])[0]?.['n'])).toEqual([...Array(31).keys()]);
  });
});

describe('a postgres failure', () => {
  it('says what the database said', async () => {
    const outcome = failed(await run('select * from public.no_such_table'));
    expect(outcome.error).toMatchObject({
      kind: 'schema',
      code: '42P01',
      message: 'relation "public.no_such_table" does not exist',
      retryable: false,
      details: { statement: 0, position: '15' },
    });
    expect(outcome.pg).toEqual({ code: '42P01', sqlstate: '42P01' });
    expect(outcome.data).toBeNull();
  });

  it.each([
    ['create table u (a int primary key); insert into u values (1), (1)', 'db_constraint', '23505'],
    ["select 'x'::int", 'schema', '22P02'],
    ['selct', 'schema', '42601'],
    ["select ' unended", 'schema', '42601'],
    ["do $$ begin raise exception 'own' using errcode = 'P0001'; end $$", 'unknown', 'P0001'],
    ["do $$ begin raise exception 'own' using errcode = '40P01'; end $$", 'db_deadlock', '40P01'],
    ['create table copied (a int); copy copied from stdin', 'config', '57014'],
  ])('of %j is %s %s', async (command, kind, code) => {
    const outcome = failed(await run(command));
    expect(outcome.error).toMatchObject({ kind, code });
    expect(outcome.pg).toEqual({ code, sqlstate: code });
  });

  it('of a statement that takes too long comes in time, and ends the statement', async () => {
    const startedAt = performance.now();
    const outcome = failed(await run('select pg_sleep(60) /* too long */', {}, { timeoutMs: 300 }));
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    expect(outcome.error).toMatchObject({ kind: 'db_timeout', code: '57014', retryable: true });
    const left = await queryRows(
      database.url,
      `select 1 from pg_stat_activity where state = 'active' and query like '%too long%' and pid <> pg_backend_pid()`,
    );
    expect(left).toEqual([]);
  });

  it('of a cancelled try ends the statement', async () => {
    const controller = new AbortController();
    const running = run('select pg_sleep(60) /* cancelled */', {}, { signal: controller.signal });
    const active = `select 1 from pg_stat_activity where state = 'active' and query like '%cancelled *%' and pid <> pg_backend_pid()`;
    while ((await queryRows(database.url, active)).length === 0);
    controller.abort();
    expect(failed(await running).error.code).toBe('CANCELLED');
    expect(await queryRows(database.url, active)).toEqual([]);
  });

  it('of rows above the cap does not fill memory', async () => {
    const outcome = failed(await run(`select repeat('x', 10000) from generate_series(1, 100000)`));
    expect(outcome.error).toMatchObject({ kind: 'logic', code: 'RESULT_TOO_LARGE' });
    expect(await data('select 1 as a')).toMatchObject({ rows: [{ a: 1 }] });
  });

  it('of a lost connection is db_connection, and the next try has a new one', async () => {
    const outcome = failed(await run('select pg_terminate_backend(pg_backend_pid())'));
    expect(outcome.error).toMatchObject({ kind: 'db_connection', retryable: true });
    expect(await data('select 1 as a')).toMatchObject({ rows: [{ a: 1 }] });
  });

  it('of an unreachable server is db_connection without the password', async () => {
    const outcome = failed(
      await run('select 1', { host: '127.0.0.1', port: 1, password: 's3cret-word' }, { auth: null }),
    );
    expect(outcome.error).toMatchObject({ kind: 'db_connection', code: 'CONN_REFUSED', retryable: true });
    expect(JSON.stringify(outcome)).not.toContain('s3cret-word');
  });

  it('of a server that never answers ends with the try', async () => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    // A TCP server's address is never a text.
    const { port } = silent.address() as AddressInfo;
    const outcome = failed(await run('select 1', { host: '127.0.0.1', port }, { auth: null, timeoutMs: 200 }));
    expect(outcome.error).toMatchObject({ kind: 'db_timeout', retryable: true });
    silent.close();
  });

  it.each([
    [{ command: '' }, /'command' is missing/],
    [{ command: '-- nothing' }, /has no statement/],
    [{ command: 'select 1; select $1', params: [1] }, /single statement/],
    [{ command: 'select $1', params: { a: 1 } }, /must be a list/],
    [{ command: 'select \0' }, /NUL/],
  ])('of an unusable configuration is kind config (%#)', async (fields, sentence) => {
    const { error } = failed(await tools.run('postgres', fields, { auth: credential() }));
    expect(error.kind).toBe('config');
    expect(error.message).toMatch(sentence);
  });
});
