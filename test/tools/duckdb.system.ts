import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json, JsonMap } from '../../machines/json.ts';
import type { ToolCall } from '../../src/tools/tool.ts';
import { failed, openTools, succeeded } from './harness.ts';

const tools = openTools({ httpMaxResponseBytes: 1_000_000, duckdbMemoryMb: 256 });
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'callboard-duckdb-'));
});
afterAll(async () => {
  await tools[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const run = (command: Json, fields: JsonMap = {}, more: Partial<ToolCall> = {}) =>
  tools.run('duckdb', { command, ...fields }, more);
const data = async (command: Json, fields: JsonMap = {}) => succeeded(await run(command, fields)).data as JsonMap;

describe('a duckdb task', () => {
  it('answers with the rows of its last statement', async () => {
    const command = `create table t (id int, note text); -- a; comment
      insert into t values (1, 'semi;colon'), (2, null); select id, note from t order by id;`;
    expect(await data(command)).toEqual({
      status: 'success',
      rows: [
        { id: 1, note: 'semi;colon' },
        { id: 2, note: null },
      ],
      columns: ['id', 'note'],
      row_count: 2,
      statement_count: 3,
    });
  });

  it('takes a list of commands, and answers with lists when it is asked to', async () => {
    const commands = ['create table t as select 1 as a; insert into t values (2)', 'from t order by a'];
    const answer = await tools.run('duckdb', { commands, as_objects: false });
    expect(succeeded(answer).data).toMatchObject({ rows: [[1], [2]], statement_count: 3 });
  });

  it('tells what changed when its last statement returns no rows', async () => {
    const made = 'create table t as select * from range(5) r(id);';
    expect(await data(`${made} update t set id = id + 1 where id > 1`)).toEqual({
      status: 'success',
      rows: [],
      columns: [],
      row_count: 3,
      affected_rows: 3,
      statement_count: 2,
    });
    expect(await data(`${made} delete from t where id = 1 returning id`)).toMatchObject({ rows: [{ id: 1 }] });
    expect(await data(`${made} select id from t where false`)).toMatchObject({
      rows: [],
      columns: ['id'],
      row_count: 0,
    });
  });

  it('makes every type JSON', async () => {
    const { rows } = await data(`select
      1::tinyint as i1, 9007199254740991 as i8, 9223372036854775807 as big, sum(x) as huge, 1.10::decimal(10,2) as dec,
      1.1::float as f4, 'nan'::double as nan, true as b, '{"a": [1]}'::json as j, 'x'::text as t,
      timestamptz '2024-05-01 12:30:00.25+02' as tz, timestamp '2024-05-01 12:30' as ts, date '2024-05-01' as d,
      time '12:30' as tm, interval '1 day' as iv, uuid '6f1e9c0e-3d5b-4a57-9d9c-0d5c3c1f5b11' as u,
      '\\x00\\xFF'::blob as bl, [1, null] as li, {'a': 1.5::decimal(3,1), 'b': [true]} as st, map {'k': 1} as m,
      'ok'::enum('ok', 'no') as e, null as n, timestamp 'infinity' as inf, [1,2]::int[2] as arr from range(3) t(x)`);
    expect((rows as Json[])[0]).toEqual({
      i1: 1,
      i8: 9007199254740991,
      big: '9223372036854775807',
      huge: 3,
      dec: '1.10',
      f4: 1.1,
      nan: null,
      b: true,
      j: { a: [1] },
      t: 'x',
      tz: '2024-05-01T10:30:00.25Z',
      ts: '2024-05-01T12:30:00',
      d: '2024-05-01',
      tm: '12:30:00',
      iv: '1 day',
      u: '6f1e9c0e-3d5b-4a57-9d9c-0d5c3c1f5b11',
      bl: 'AP8=',
      li: [1, null],
      st: { a: '1.5', b: [true] },
      m: { k: 1 },
      e: 'ok',
      n: null,
      inf: 'infinity',
      arr: [1, 2],
    });
  });

  it('takes parameters by position and by name', async () => {
    const params = [7, 9007199254740991, 1.5, "it's", true, null, [1, 2], { a: 1 }];
    const { rows } = await data(
      'select $1 + 0 as i, $2 as big, $3 as f, $4 as t, $5 as b, $6 as n, list_sum($7) as l, $8::json as j',
      { params },
    );
    expect(rows).toEqual([{ i: 7, big: 9007199254740991, f: 1.5, t: "it's", b: true, n: null, l: 3, j: { a: 1 } }]);
    expect(await data('select x from range(10) r(x) where x = $wanted', { params: { wanted: 4 } })).toMatchObject({
      rows: [{ x: 4 }],
    });
    expect(failed(await run('select $1; select $1', { params: [1] })).error.kind).toBe('config');
  });

  it('has a fresh database in memory each time, and keeps a file', async () => {
    await data('create table kept as select 1 as a');
    expect(failed(await run('from kept', { database: ':memory:' })).error).toMatchObject({ code: 'DUCKDB_CATALOG' });
    const database = join(folder, 'kept.duckdb');
    await data('create table kept as select 1 as a', { database });
    expect(await data('from kept', { db_path: database })).toMatchObject({ rows: [{ a: 1 }] });
  });
});

describe('a duckdb failure', () => {
  it.each([
    ['selec 1', 'schema', 'DUCKDB_PARSER'],
    ['from nowhere', 'schema', 'DUCKDB_CATALOG'],
    ["select 'x'::int", 'schema', 'DUCKDB_CONVERSION'],
    ['create table t (a int primary key); insert into t values (1), (1)', 'db_constraint', 'DUCKDB_CONSTRAINT'],
    ['', 'config', 'TOOL_FIELD'],
    ['-- nothing', 'config', 'TOOL_FIELD'],
  ])('of %j has kind %s', async (command, kind, code) => {
    expect(failed(await run(command)).error).toMatchObject({ kind, code, retryable: false });
  });

  it('names the statement, and the statements after it do not run', async () => {
    const database = join(folder, 'stops.duckdb');
    const { error } = failed(await run('create table a (i int); from nowhere; create table b (i int)', { database }));
    expect(error.message).toContain('statement 2 of 3');
    expect(await data('select table_name from duckdb_tables()', { database })).toMatchObject({
      rows: [{ table_name: 'a' }],
    });
  });

  it('of rows above the limit says so', async () => {
    const { error } = failed(await run("select repeat('x', 1000) from range(2000)"));
    expect(error).toMatchObject({ kind: 'logic', code: 'RESULT_TOO_LARGE' });
  });

  it('of a query above its memory says so', async () => {
    const { error } = failed(await run('select list(x) from range(200000000) t(x)'));
    expect(error.code).toMatch(/^DUCKDB_(?:OUT_OF_MEMORY|LOST)$/);
  });

  it('of a query that takes too long or is stopped comes at once, while the worker goes on', async () => {
    const heavy = 'select count(*) from range(100000000) a(x), range(1000) b(y) where x * y % 7 = 3';
    let ticks = 0;
    const timer = setInterval(() => (ticks += 1), 10);
    expect(failed(await run(heavy, {}, { timeoutMs: 700 })).error).toMatchObject({
      kind: 'timeout',
      code: 'TOOL_TIMEOUT',
    });
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(10);
    const stop = new AbortController();
    const running = run(heavy, {}, { signal: stop.signal });
    stop.abort();
    expect(failed(await running).error.code).toBe('CANCELLED');
  });

  it('of a credential that is no database is a matter of configuration', async () => {
    const auth = { name: 'k', type: 'bearer', data: { token: 'secret' } };
    expect(failed(await run('select 1', {}, { auth })).error).toMatchObject({
      kind: 'config',
      message: "credential 'k' of type 'bearer' cannot be used with tool kind 'duckdb'",
    });
  });
});

describe('files', () => {
  it('are out of reach, for reading, writing, attaching and loading', async () => {
    const secret = join(folder, 'secret.csv');
    await writeFile(secret, 'a\n1\n');
    const before = await readdir(folder);
    const reading = `from read_csv('${secret}')`;
    expect(failed(await run(reading, { database: join(folder, 'kept.duckdb') })).error.kind).toBe('config');
    for (const statement of [
      reading,
      `from '${secret}'`,
      `select * from glob('${folder}/*')`,
      `copy (select 1) to '${folder}/out.csv'`,
      `attach '${folder}/other.duckdb' as other`,
      `export database '${folder}/dump'`,
      'install httpfs',
      'load httpfs',
      'set enable_external_access = true',
    ]) {
      const { error } = failed(await run(statement));
      expect([statement, error.kind]).toEqual([statement, expect.stringMatching(/^(config|schema)$/)]);
    }
    expect(await readdir(folder)).toEqual(before);
  });

  it('are there where the operator allows it', async () => {
    await using open = openTools({ duckdbExternalAccess: true });
    const file = join(folder, 'out.csv');
    const copied = await open.run('duckdb', { command: `copy (select 1 as a) to '${file}'; from read_csv('${file}')` });
    expect(succeeded(copied).data).toMatchObject({ rows: [{ a: 1 }] });
    expect(await readFile(file, 'utf8')).toBe('a\n1\n');
  });

  it('that are held by another process are worth another try', async () => {
    const database = join(folder, 'held.duckdb');
    const stop = new AbortController();
    const heavy = 'create table t as select count(*) from range(100000000) a(x), range(1000) b(y) where x * y % 7 = 3';
    const holding = run(heavy, { database }, { signal: stop.signal });
    // The holder has the file once the file is there.
    while (!(await readdir(folder)).includes('held.duckdb')) await new Promise((resolve) => setImmediate(resolve));
    let second = await run('select 1', { database });
    while (second.ok) second = await run('select 1', { database });
    expect(failed(second).error).toMatchObject({ kind: 'db_connection', code: 'DUCKDB_LOCKED', retryable: true });
    stop.abort();
    await holding;
  });
});
