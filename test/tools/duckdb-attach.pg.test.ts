import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import { mentionsOf } from '../../src/tools/duckdb/mentions.ts';
import { failure, ToolRefusal } from '../../src/tools/errors.ts';
import type { ToolCall } from '../../src/tools/tool.ts';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';
import { failed, noHost, openTools, succeeded } from './harness.ts';

const tools = openTools({ duckdbMemoryMb: 256 });
let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startTestPostgres({ migrated: false });
});
afterAll(async () => {
  await tools[Symbol.asyncDispose]();
  await postgres.stop();
});

const host: ToolCall['host'] = {
  ...noHost,
  async credential(auth) {
    if (auth === 'pg') return { name: 'pg', type: 'postgres', data: { connection_string: postgres.url } };
    throw new ToolRefusal(failure('missing_reference', 'CREDENTIAL_NOT_FOUND', `Credential '${auth}' not found`));
  },
};
const sql = (text: string) => queryRows<JsonMap>(postgres.url, text);

describe('a database that is attached to duckdb', () => {
  const attached = (command: string, auth: JsonMap = { crm: { source: 'credential', tool: 'postgres', key: 'pg' } }) =>
    tools.run('duckdb', { command, auth }, { host });

  it('is read under its alias', async () => {
    await sql(`create schema sales; create table sales."Order s" (id int, total numeric(10,2), at timestamptz, tags text[], b bytea);
      insert into sales."Order s" values (1, 12.30, '2024-05-01 10:00+00', array['a'], '\\x00ff'), (2, null, null, null, null);
      create table plain (id int, big numeric); insert into plain select g, g * 1.5 from generate_series(1, 7000) g`);
    const command = `create table o as select * from crm.sales."Order s";
      with t as (select * from CRM.Plain) select o.*, (select count(*) from t) as n, p.big from o join crm.public.plain p using (id) order by o.id`;
    expect(succeeded(await attached(command)).data).toMatchObject({
      rows: [
        { id: 1, total: '12.30', at: '2024-05-01T10:00:00Z', tags: ['a'], b: 'AP8=', n: 7000, big: 1.5 },
        { id: 2, total: null, at: null, tags: null, b: null, n: 7000, big: 3 },
      ],
    });
  });

  it('cannot be written to', async () => {
    await sql('create table readers (id int)');
    const { error } = failed(await attached('insert into crm.public.readers values (1)'));
    expect(error.message).toMatch(/read-only/);
    expect(await sql('select * from readers')).toEqual([]);
  });

  it('does not open files to the statements', async () => {
    expect(failed(await attached("select * from read_text('/etc/hostname')")).error.code).toBe('DUCKDB_PERMISSION');
  });

  it('is found under the name of a single credential', async () => {
    await sql('create table single (id int); insert into single values (3)');
    const auth = { name: 'my pg', type: 'postgres', data: { connection_string: postgres.url } };
    const answer = await tools.run('duckdb', { command: 'from "my pg".public.single' }, { host, auth });
    expect(succeeded(answer).data).toMatchObject({ rows: [{ id: 3 }] });
  });

  it.each([
    [{ crm: { tool: 'snowflake', key: 'pg' } }, 'config'],
    [{ crm: { tool: 'postgres' } }, 'config'],
    [{ crm: { tool: 'postgres', key: 'nobody' } }, 'missing_reference'],
  ] as [JsonMap, string][])('%j fails with kind %s', async (auth, kind) => {
    expect(failed(await attached('select 1', auth)).error.kind).toBe(kind);
  });

  it('fails for a table that is not there', async () => {
    expect(failed(await attached('from crm.public.nothing')).error).toMatchObject({
      kind: 'schema',
      code: 'DUCKDB_CATALOG',
    });
  });
});

describe('the tables a statement may mean', () => {
  it.each([
    ['from crm.a join CRM.s."B ""c" using (id)', [['a'], ['s'], ['s', 'B "c']]],
    ["select 'crm.no' /* crm.no */ -- crm.no\n, $$crm.no$$ from x.crm.no, crm . yes", [['yes']]],
    ["select 'it''s crm.no", []],
    ['/* crm.no', []],
    ['select crm', []],
  ])('of %j are found', (statement, mentions) => {
    expect(mentionsOf([statement], 'crm')).toEqual(mentions);
  });
});
