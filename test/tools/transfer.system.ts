import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json, JsonMap } from '../../machines/json.ts';
import { failure, ToolRefusal } from '../../src/tools/errors.ts';
import type { ToolCall } from '../../src/tools/tool.ts';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';
import { failed, noHost, openTools, succeeded } from './harness.ts';
import { startServer } from './http-server.ts';

const tools = openTools({ duckdbMemoryMb: 256 });
let postgres: TestPostgres;
let folder: string;
beforeAll(async () => {
  postgres = await startTestPostgres({ migrated: false });
  folder = await mkdtemp(join(tmpdir(), 'callboard-transfer-'));
});
afterAll(async () => {
  await tools[Symbol.asyncDispose]();
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
});

const host: ToolCall['host'] = {
  ...noHost,
  async credential(auth) {
    if (auth === 'pg') return { name: 'pg', type: 'postgres', data: { connection_string: postgres.url } };
    if (auth === 'api') return { name: 'api', type: 'bearer', data: { token: 'secret-token' } };
    throw new ToolRefusal(failure('missing_reference', 'CREDENTIAL_NOT_FOUND', `Credential '${auth}' not found`));
  },
};

const sql = (text: string) => queryRows<JsonMap>(postgres.url, text);
const transfer = (source: JsonMap, target: JsonMap, fields: JsonMap = {}, more: Partial<ToolCall> = {}) =>
  tools.run('transfer', { source, target, ...fields }, { host, ...more });
const moved = async (...args: Parameters<typeof transfer>) => succeeded(await transfer(...args)).data;
const duckdb = async (database: string, command: string) =>
  (succeeded(await tools.run('duckdb', { database, command })).data as JsonMap)['rows'];

const pg = (query: string): JsonMap => ({ type: 'postgres', auth: 'pg', query });
const into = (table: string, more: JsonMap = {}): JsonMap => ({ type: 'postgres', auth: 'pg', table, ...more });

describe('a transfer', () => {
  it('moves rows of every type from PostgreSQL to PostgreSQL in chunks', async () => {
    const columns = `id int primary key, big int8, n numeric, t text, j jsonb, js json, a int[], ts timestamptz, l timestamp,
      d date, b bytea, u uuid, ok bool, f float8, iv interval`;
    await sql(`create table origin (${columns}); create table "Copy of" (${columns})`);
    await sql(`insert into origin select g, 9223372036854775807, 12345678901234567890.123456789, 'a "quoted" \\ text', '{"k": [1, null]}',
      '"x"', array[1, null, 3], '2024-05-01 10:00:00.123456+02', '2024-05-01 10:00', '2024-05-01', '\\x00ff',
      '6f1e9c0e-3d5b-4a57-9d9c-0d5c3c1f5b11', true, 1.5, '1 day 02:00:00' from generate_series(1, 25) g`);
    await sql('insert into origin (id) values (26)');
    expect(await moved(pg('select * from origin order by id'), into('public."Copy of"'), { chunk_size: 10 })).toEqual({
      status: 'success',
      direction: 'postgres_to_postgres',
      source_type: 'postgres',
      target_type: 'postgres',
      mode: 'append',
      rows_transferred: 26,
    });
    const differences = await sql(
      `select * from (select o::text from origin o except select c::text from "Copy of" c) d
       union all select * from (select c::text from "Copy of" c except select o::text from origin o) d`,
    );
    expect(differences).toEqual([]);
  });

  it('replaces, appends and upserts', async () => {
    await sql('create table modes (id int primary key, v text); insert into modes values (1, $$old$$), (9, $$kept$$)');
    const source = pg('select * from (values (1, $$new$$), (2, $$two$$), (2, $$last$$)) v(id, v)');
    const rows = () => sql('select id, v from modes order by id');
    expect(await moved(source, into('modes'), { mode: 'upsert', key: 'id' })).toMatchObject({ mode: 'upsert' });
    expect(await rows()).toEqual([
      { id: 1, v: 'new' },
      { id: 2, v: 'last' },
      { id: 9, v: 'kept' },
    ]);
    await moved(pg('select 5 as id'), into('modes'), { mode: 'replace' });
    expect(await rows()).toEqual([{ id: 5, v: null }]);
    await moved(pg('select 6 as id'), into('modes', { mode: 'append' }));
    await moved(pg('select 6 as id'), into('modes'), { mode: 'upsert', key: ['id'] });
    expect(await rows()).toHaveLength(2);
    expect(await moved(pg('select 1 as id where false'), into('modes'), { mode: 'replace' })).toMatchObject({
      rows_transferred: 0,
    });
    expect(await rows()).toEqual([]);
  });

  it('leaves nothing behind when a later chunk fails', async () => {
    await sql('create table whole (id int primary key); insert into whole values (7)');
    const source = pg('select 100 - g as id from generate_series(1, 93) g');
    const { error } = failed(await transfer(source, into('whole'), { chunk_size: 10, mode: 'append' }));
    expect(error).toMatchObject({ kind: 'db_constraint', code: '23505' });
    expect(await sql('select id from whole')).toEqual([{ id: 7 }]);
    const replaced = await transfer(pg('select 1 / (3 - g) as id from generate_series(1, 5) g'), into('whole'), {
      mode: 'replace',
    });
    expect(failed(replaced).error).toMatchObject({ kind: 'schema', code: '22012' });
    expect(await sql('select id from whole')).toEqual([{ id: 7 }]);
  });

  it('takes rows out of an HTTP answer by paths', async () => {
    await sql('create table people (name text, city text, tags jsonb, first_tag text, odd text)');
    await using server = await startServer((_, response) => {
      const items = [
        { name: 'Ada', address: { city: 'London' }, tags: ['x', 'y'], 'a.b': 'plain' },
        { name: "O'Hara", address: null },
      ];
      response.end(JSON.stringify({ data: { items } }));
    });
    const source = { type: 'http', url: server.url, auth: 'api', data_path: 'data.items', headers: { 'x-a': 'b' } };
    const mapping = { name: 'name', city: 'address.city', tags: 'tags', first_tag: 'tags[0]', odd: 'a.b' };
    expect(await moved(source, into('people', { mapping }))).toMatchObject({
      direction: 'http_to_postgres',
      rows_transferred: 2,
    });
    expect(server.seen[0]?.headers).toMatchObject({ authorization: 'Bearer secret-token', 'x-a': 'b' });
    expect(await sql('select * from people')).toEqual([
      { name: 'Ada', city: 'London', tags: ['x', 'y'], first_tag: 'x', odd: 'plain' },
      { name: "O'Hara", city: null, tags: null, first_tag: null, odd: null },
    ]);
  });

  it('runs an insert of the author per row', async () => {
    await sql('create table sums (id int, total int)');
    const query = 'insert into sums (id, total) values ($1, $2::int * 10)';
    await moved(pg('select 1 as id, 2 as n union all select 2, 3 order by 1'), into('', { query }));
    expect(await sql('select * from sums order by id')).toEqual([
      { id: 1, total: 20 },
      { id: 2, total: 30 },
    ]);
  });

  it('moves rows to DuckDB and back', async () => {
    const database = join(folder, 'there.duckdb');
    const type = `id integer primary key, big bigint, n decimal(20,4), t varchar, j json, a integer[], ts timestamptz, d date,
      b blob, ok boolean`;
    await duckdb(database, `create table t (${type})`);
    await sql(
      `create table back (id int, big int8, n numeric(20,4), t text, j jsonb, a int[], ts timestamptz, d date, b bytea, ok bool)`,
    );
    await sql(`insert into back values (1, 9223372036854775807, 1234567890123456.7891, 'ö "x"', '{"k": ["v"]}', array[1, 2],
      '2024-05-01 10:00:00.5+02', '2024-05-01', '\\x00ff', true), (2, null, null, null, null, null, null, null, null, null),
      (3, 0, 0, '', '"text"', '{}', '2024-05-01', '2024-05-01', '', false)`);
    const target = { type: 'duckdb', database, table: 't' };
    expect(await moved(pg('select * from back'), target, { chunk_size: 2 })).toMatchObject({
      direction: 'postgres_to_duckdb',
      rows_transferred: 3,
    });
    await moved(pg('select 2 as id, $$two$$ as t'), target, { mode: 'upsert', key: 'id' });
    expect(await duckdb(database, 'select t, j, a, ts, b, n from t order by id')).toEqual([
      { t: 'ö "x"', j: { k: ['v'] }, a: [1, 2], ts: '2024-05-01T08:00:00.5Z', b: 'AP8=', n: '1234567890123456.7891' },
      { t: 'two', j: null, a: null, ts: null, b: null, n: null },
      { t: '', j: 'text', a: [], ts: '2024-05-01T00:00:00Z', b: '', n: '0.0000' },
    ]);
    await sql('create table home (like back)');
    const source = { type: 'duckdb', database, query: 'from t where id <> 2 order by id' };
    expect(await moved(source, into('home'))).toMatchObject({ direction: 'duckdb_to_postgres', rows_transferred: 2 });
    expect(await sql('select h::text from home h except select w::text from back w')).toEqual([]);
    // A file has one process at a time; within a file a statement does the same.
    expect(failed(await transfer(source, target)).error).toMatchObject({ code: 'DUCKDB_LOCKED' });
    const other = join(folder, 'other.duckdb');
    await duckdb(other, 'create table copy (id integer, t varchar); insert into copy values (8, null)');
    const both = { type: 'duckdb', database: other, table: 'copy', mapping: { id: 'id', t: 't' } };
    await moved(source, both, { mode: 'replace' });
    expect(await duckdb(other, 'select id from copy order by id')).toEqual([{ id: 1 }, { id: 3 }]);
  });

  it('leaves a DuckDB file as it was when it fails', async () => {
    const database = join(folder, 'kept.duckdb');
    await duckdb(database, 'create table t (id integer primary key); insert into t values (4)');
    const target = { type: 'duckdb', database, table: 't' };
    const clash = await transfer(pg('select g as id from generate_series(1, 9) g'), target, { chunk_size: 2 });
    expect(failed(clash).error).toMatchObject({ kind: 'db_constraint' });
    const wrong = await transfer(pg('select $$x$$ as id'), target, { mode: 'replace' });
    expect(failed(wrong).error).toMatchObject({ kind: 'schema', code: 'DUCKDB_CONVERSION' });
    expect(await duckdb(database, 'from t')).toEqual([{ id: 4 }]);
  });

  it('stops when its time is over, and nothing of it stays', async () => {
    await sql('create table slow (id int)');
    const source = pg('select g as id from generate_series(1, 2000) g where pg_sleep(0.001) is not null');
    const late = await transfer(source, into('slow'), { chunk_size: 100 }, { timeoutMs: 600 });
    expect(failed(late).error).toMatchObject({ kind: 'timeout', code: 'TOOL_TIMEOUT' });
    expect(await sql('select id from slow')).toEqual([]);
  });
});

describe('a transfer that cannot be', () => {
  const good = { source: pg('select 1 as id'), target: into('t') };

  it.each([
    [{ source: { type: 'gcs' } }, 'config'],
    [{ target: { type: 'http' } }, 'config'],
    [{ source: { type: 'postgres', auth: 'pg' } }, 'config'],
    [{ source: pg('select 1; drop table t') }, 'config'],
    [{ target: { type: 'postgres', auth: 'pg' } }, 'config'],
    [{ target: into('t; drop table t') }, 'config'],
    [{ target: into('a.b.c') }, 'config'],
    [{ target: into('nowhere') }, 'schema'],
    [{ target: { type: 'postgres', auth: 'nobody', table: 't' } }, 'missing_reference'],
    [{ target: { type: 'duckdb', table: 't' } }, 'config'],
    [{ mode: 'upsert' }, 'config'],
    [{ mode: 'merge' }, 'config'],
    [{ mode: 'upsert', key: 'other' }, 'config'],
    [{ chunk_size: 0 }, 'config'],
    [{ source: { type: 'postgres', host: '127.0.0.1', port: 1, query: 'select 1' } }, 'db_connection'],
    [{ source: { type: 'http', url: 'http://127.0.0.1:1/' } }, 'connection'],
    [{ source: { type: 'duckdb', database: '/nowhere/x.duckdb', query: 'select 1' } }, 'storage_access'],
    [{ source: { type: 'duckdb', auth: 'api', query: 'select 1' } }, 'config'],
  ] as [JsonMap, string][])('%j fails with kind %s', async (fields, kind) => {
    await sql('create table if not exists t (id int primary key)');
    expect(failed(await tools.run('transfer', { ...good, ...fields }, { host })).error.kind).toBe(kind);
  });

  it.each([
    ['not json', undefined, 'parse'],
    ['{"a": 1}', undefined, 'schema'],
    ['[1, 2]', undefined, 'schema'],
    ['{"a": 1}', 'b', 'schema'],
    ['[{"__proto__": {"x": 1}}]', undefined, 'schema'],
  ])('an answer %s fails with kind %s', async (body, data_path, kind) => {
    await using server = await startServer((_, response) => void response.end(body));
    const source: Record<string, Json> = { type: 'http', url: server.url, ...(data_path && { data_path }) };
    expect(failed(await transfer(source, into('t'))).error.kind).toBe(kind);
  });

  it('has the status of its HTTP source judged', async () => {
    await using server = await startServer((_, response) => void response.writeHead(503).end());
    const { error } = failed(await transfer({ type: 'http', url: server.url }, into('t')));
    expect(error).toMatchObject({ kind: 'server_error', code: 'HTTP_503', retryable: true });
  });
});
