/** A start that takes long: the port answers all the while, and a process told to stop meanwhile stops. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { queryRows, startTestPostgres } from '../support/postgres.ts';
import { freePort, Stage } from '../support/processes.ts';

const stage = new Stage();
afterEach(() => stage.close());

/** A database in which another process seems to be changing the schema; `release` lets the next one in. */
async function slowDatabase(): Promise<{ readonly url: string; release(): Promise<void> }> {
  const postgres = await startTestPostgres({ migrated: false });
  stage.onEnd(() => postgres.stop());
  const holder = new pg.Client({ connectionString: postgres.url });
  await holder.connect();
  let isOpen = true;
  const release = async () => {
    if (isOpen) await holder.end();
    isOpen = false;
  };
  stage.onEnd(release);
  await holder.query(`select pg_advisory_lock(hashtextextended('core.migrate', 0))`);
  return { url: postgres.url, release };
}

async function starting(argv: readonly string[], databaseUrl: string) {
  const port = await freePort();
  const environment = {
    SVC_PORT: String(port),
    SVC_DATA_DIR: await stage.folder(),
    SVC_DATABASE_URL: databaseUrl,
  };
  const started = stage.start(argv, environment);
  await started.said('The port is open');
  const ask = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`);
    return { status: answer.status, retryAfter: answer.headers.get('retry-after'), json: await answer.json() };
  };
  return { started, port, ask };
}

async function untilWaiting(databaseUrl: string): Promise<void> {
  await expect
    .poll(() => queryRows(databaseUrl, `select 1 as one from pg_locks where locktype = 'advisory' and not granted`), {
      timeout: 30_000,
    })
    .toHaveLength(1);
}

describe.each([[['server']], [['dev', '--no-examples']]])('`callboard %j` over a schema that others change', (argv) => {
  test('answers 503 with Retry-After until it is ready, and serves then', async () => {
    const database = await slowDatabase();
    const { started, ask } = await starting(argv, database.url);
    await untilWaiting(database.url);
    expect(await ask('/health')).toMatchObject({ status: 200, json: { status: 'ok' } });
    expect(await ask('/api/health')).toMatchObject({ status: 503, retryAfter: '2', json: { status: 'degraded' } });
    expect(await ask('/api/executions')).toMatchObject({
      status: 503,
      retryAfter: '2',
      json: { code: 'db_unavailable' },
    });
    await database.release();
    await started.said(argv[0] === 'dev' ? 'Ctrl-C stops it' : 'The server listens');
    expect(await ask('/api/health')).toMatchObject({ status: 200, json: { status: 'ok' } });
    expect(await ask('/api/executions')).toMatchObject({ status: 200 });
    expect((await started.stop()).code).toBe(0);
  });

  test('stops when it is told to, without waiting for them, and leaves nothing half done', async () => {
    const database = await slowDatabase();
    const { started } = await starting(argv, database.url);
    await untilWaiting(database.url);
    expect((await started.stop()).code).toBe(0);
    await database.release();
    expect(await queryRows(database.url, `select 1 as one from pg_namespace where nspname = 'core'`)).toEqual([]);
  });
});

test('a port that is taken ends the start before the database is touched', async () => {
  const database = await slowDatabase();
  const { port } = await starting(['server'], database.url);
  const second = stage.start(['server'], {
    SVC_PORT: String(port),
    SVC_DATA_DIR: await stage.folder(),
    SVC_DATABASE_URL: database.url,
  });
  expect((await second.ended).code).toBe(4);
  expect(second.output()).toContain(`port ${port} on 127.0.0.1 is taken`);
});

test('a wrong encryption key ends the start before the schema is changed', async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const environment = { SVC_PORT: '0', SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: await stage.folder() };
  const first = stage.start(['server'], environment);
  await first.said('The server listens');
  expect((await first.stop()).code).toBe(0);
  // As a newer build would find it: a migration is missing.
  const newest = 'select max(version) as version from core.schema_migration';
  const [before] = await queryRows(postgres.url, newest);
  await queryRows(postgres.url, `delete from core.schema_migration where version = (${newest})`);
  const second = stage.start(['server'], {
    ...environment,
    SVC_ENCRYPTION_KEY: Buffer.from('0123456789abcdef0123456789ABCDEF').toString('base64'),
  });
  expect((await second.ended).code).toBe(78);
  expect(second.output()).toMatch(/encryption key k1 is not the key of that id/);
  expect(await queryRows(postgres.url, newest)).not.toEqual([before]);
});

test('a signal to `npm start` ends the service, although the shell between them passes none on', async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const port = await freePort();
  const npm = spawn('npm', ['start'], {
    cwd: fileURLToPath(new URL('../../', import.meta.url)),
    env: {
      ...process.env,
      SVC_PORT: String(port),
      SVC_DATA_DIR: await stage.folder(),
      SVC_DATABASE_URL: postgres.url,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(npm, 'exit');
  let said = '';
  npm.stdout.on('data', (chunk) => {
    said += String(chunk);
  });
  const isThere = () =>
    fetch(`http://127.0.0.1:${port}/health`).then(
      () => true,
      () => false,
    );
  await expect.poll(() => said, { timeout: 60_000 }).toContain('Ctrl-C stops it');
  expect(await isThere()).toBe(true);
  npm.kill('SIGTERM');
  await ended;
  await expect.poll(isThere, { timeout: 30_000 }).toBe(false);
  await expect
    .poll(() => queryRows(postgres.url, `select status from core.runtime where kind = 'worker_pool'`), {
      timeout: 30_000,
    })
    .toEqual([{ status: 'offline' }]);
});
