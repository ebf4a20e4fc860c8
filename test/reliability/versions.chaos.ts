/** A newer build beside an older one, and back again, while work goes on; and a backup taken in the middle of it. */
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { afterEach, expect, test } from 'vitest';
import { type Migration, migrate, readMigrations } from '../../src/store/migrate.ts';
import { chain, fanOut, loop } from '../e2e/flows.ts';
import { brokenLaws } from '../support/log-laws.ts';
import { queryRows, startTestPostgres } from '../support/postgres.ts';
import { Stage, untilEnded, untilEvents } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { askAt } from './service.ts';

const stage = new Stage();
afterEach(() => stage.close());

/** What a next build may do to the schema while this one runs: columns, tables and indexes that this one does not know. */
const NEXT = `
alter table core.execution add column noted text;
alter table core.event add column noted text not null default 'new';
alter table core.command add column noted jsonb;
create table core.novelty (novelty_id bigint primary key, at timestamptz not null default now());
create index novelty_at on core.novelty (at);
`;

/** One second in the contract; a request may be in a flush of its own before and after. */
const BLOCKED_AT_MOST_MS = 5_000;

test('OP-01 a newer schema, servers of both builds, and the way back: nothing is lost, and nobody waits for the migration', async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const environment = { SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: await stage.folder() };
  const older = await stage.server(environment);
  await stage.worker(older.url, { SVC_WORKER_NAME: 'older' });
  const flows = [chain(150), loop(40, 0.05), fanOut(8)];
  const first = await stage.startRuns(older.url, flows);
  const client = stage.client(older.url);
  const small = chain(3);
  await client.register(small.text, {});
  const started: number[] = [];
  let slowest = 0;
  let isOver = false;
  const caller = (async () => {
    while (!isOver) {
      const began = performance.now();
      started.push((await client.execute({ path: small.path })).execution_id);
      slowest = Math.max(slowest, performance.now() - began);
      await pause(20);
    }
  })();

  await untilEvents(postgres.url, first[0] ?? 0, 100);
  // A report that reads for eight seconds: the migration has to wait for it, and nobody may have to wait for both.
  const reader = new pg.Client({ connectionString: postgres.url });
  await reader.connect();
  stage.onEnd(() => reader.end());
  await reader.query('begin');
  await reader.query('select count(*) from core.execution, core.event, core.command where false');
  const known = await readMigrations();
  const next: Migration = { version: 9_001, name: '9001_next.sql', sql: NEXT, checksum: 'next', breaking: false };
  const applied = migrate(postgres.url, { migrations: [...known, next] });
  await pause(8_000);
  await reader.query('commit');
  expect((await applied).applied).toEqual(['9001_next.sql']);
  expect(slowest).toBeLessThan(BLOCKED_AT_MOST_MS);

  // The newer server stands beside the older one, with workers of the older kind; then it goes again.
  const newer = await stage.server(environment);
  const second = await stage.startRuns(newer.url, flows);
  await untilEvents(postgres.url, second[0] ?? 0, 60);
  await newer.kill();
  // Back: a process of the older build starts on the newer schema.
  isOver = true;
  await caller;
  expect((await older.stop()).code).toBe(0);
  const back = await stage.server(environment, older.port);
  await untilEnded(postgres.url, [...first, ...second, ...started], 90_000);
  expect(await askAt(back.url, 'GET', '/api/db/validate')).toMatchObject({
    json: { valid: true, schema_version: 9_001 },
  });
  const runs = await readRuns(postgres.url, [...first, ...second]);
  expect(runs.map(({ row }) => row.result)).toEqual([...flows, ...flows].map(({ result }) => result));
  expect(brokenLaws(await readRuns(postgres.url))).toEqual([]);
}, 240_000);

/** Order in which rows may be put back: what others refer to comes first. */
const TABLES = [
  'catalog',
  'credential',
  'keychain',
  'keychain_event',
  'encryption_key',
  'execution',
  'event',
  'command',
  'result',
  'transient',
  'runtime',
  'lease',
  'batch_request',
  'schedule',
  'audit',
] as const;

/** What a dump and its restoring do: all rows as one moment saw them, and the sequence as it is a little later. */
async function restoreElsewhere(from: string, to: string): Promise<void> {
  const source = new pg.Client({ connectionString: from });
  const target = new pg.Client({ connectionString: to });
  await Promise.all([source.connect(), target.connect()]);
  try {
    await source.query('begin isolation level repeatable read read only');
    const rows = new Map<string, string>();
    for (const table of TABLES) {
      const found = await source.query<{ all: string | null }>(
        `select json_agg(t)::text as all from core.${table} as t`,
      );
      rows.set(table, found.rows[0]?.all ?? '[]');
    }
    const sequence = await source.query<{ last: string }>('select last_value as last from core.id_seq');
    await source.query('commit');
    for (const [table, all] of rows) {
      const columns = await target.query<{ name: string }>(
        `select attname as name from pg_attribute
         where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
        [`core.${table}`],
      );
      const names = columns.rows.map(({ name }) => `"${name}"`).join(', ');
      await target.query(
        `insert into core.${table} (${names}) select ${names} from json_populate_recordset(null::core.${table}, $1::json)`,
        [all],
      );
    }
    await target.query(`select setval('core.id_seq', $1, true)`, [sequence.rows[0]?.last]);
  } finally {
    await Promise.all([source.end(), target.end()]);
  }
}

test('OP-06 a backup taken in the middle of runs is restored elsewhere: the runs go on there, and no id is given out twice', async () => {
  const [here, there] = [await startTestPostgres(), await startTestPostgres()];
  stage.onEnd(() => Promise.all([here.stop(), there.stop()]));
  const environment = {
    SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    SVC_AUTO_RESUME_MODE: 'continue',
    SVC_COMMAND_CLAIM_LEASE_SECONDS: '2',
    SVC_COMMAND_REAPER_INTERVAL_SECONDS: '1',
  };
  const server = await stage.server({
    ...environment,
    SVC_DATABASE_URL: here.url,
    SVC_DATA_DIR: await stage.folder(),
  });
  await stage.worker(server.url, { SVC_WORKER_NAME: 'here' });
  const data = { token: 'a-secret-word' };
  await askAt(server.url, 'POST', '/api/credentials', { name: 'kept_auth', type: 'bearer', data });
  const flows = [chain(150), loop(60, 0.05), fanOut(8)];
  const executionIds = await stage.startRuns(server.url, flows);
  await untilEvents(here.url, executionIds[0] ?? 0, 200);
  await restoreElsewhere(here.url, there.url);
  const unfinished = await queryRows(there.url, `select from core.execution where status = 'running'`);
  expect(unfinished.length).toBeGreaterThan(0);
  // The worker of the old place is not known to the new one but for its row: its claims are taken over.
  await server.kill();

  const restored = await stage.server({
    ...environment,
    SVC_DATABASE_URL: there.url,
    SVC_DATA_DIR: await stage.folder(),
  });
  const ids = 'select max(command_id)::bigint as command, max(execution_id)::bigint as execution from core.command';
  const [before] = await queryRows<{ command: string; execution: string }>(there.url, ids);
  await stage.worker(restored.url, { SVC_WORKER_NAME: 'there' });
  const later = await stage.startRuns(restored.url, flows);
  await untilEnded(there.url, [...executionIds, ...later], 120_000);

  expect(Math.min(...later)).toBeGreaterThan(Number(before?.execution));
  expect(Math.min(...later)).toBeGreaterThan(Number(before?.command));
  const runs = await readRuns(there.url);
  expect(runs.map(({ row }) => row.executionId)).toEqual([...executionIds, ...later]);
  expect(runs.map(({ row }) => row.result)).toEqual([...flows, ...flows].map(({ result }) => result));
  expect(brokenLaws(runs)).toEqual([]);
  expect(await askAt(restored.url, 'GET', '/api/credentials/kept_auth?include_data=true')).toMatchObject({
    status: 200,
    json: { data },
  });
  expect(await askAt(restored.url, 'GET', '/api/admin/invariants')).toMatchObject({ json: { status: 'ok' } });
}, 240_000);
