import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Log } from '../../actors/ports.ts';
import { closeCluster, homeOf } from '../../src/embedded/cluster.ts';
import { type EmbeddedPostgres, startEmbedded } from '../../src/embedded/embedded-postgres.ts';
import { findPostmaster } from '../../src/embedded/postmaster.ts';
import { isAlive } from '../../src/embedded/start-lock.ts';
import { createDatabase } from '../../src/store/pool.ts';
import { databaseConfig } from '../support/database.ts';
import { queryRows, quiet } from '../support/postgres.ts';

const FAST = { settings: { fsync: 'off', shared_buffers: '16MB' } };

let directory: string;
let running: EmbeddedPostgres[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'callboard-embedded-'));
  running = [];
});
afterEach(async () => {
  for (const one of running) await one.stop();
  await closeCluster(directory);
  const home = existsSync(directory) ? await homeOf(directory) : directory;
  await rm(home, { recursive: true, force: true });
  await rm(directory, { recursive: true, force: true });
});

async function start(log: Log = quiet, at = directory): Promise<EmbeddedPostgres> {
  const one = await startEmbedded(at, log, FAST);
  running.push(one);
  return one;
}

async function postmaster(): Promise<number> {
  return findPostmaster(join(await homeOf(directory), 'pg'))?.pid ?? 0;
}

test('a database is made on first use, listens on no port, and is there again after a stop', async () => {
  const first = await start();
  await queryRows(first.url, 'create table kept (n int)');
  expect(await queryRows(first.url, 'show listen_addresses')).toEqual([{ listen_addresses: '' }]);
  expect(await queryRows(first.url, 'show server_encoding')).toEqual([{ server_encoding: 'UTF8' }]);
  const pid = await postmaster();
  await first.stop();
  await first.stop();
  expect(isAlive(pid) && (await postmaster()) === pid).toBe(false);
  const second = await start();
  expect(await queryRows(second.url, 'select from kept')).toEqual([]);
});

test('two starts at once share one server, and the last to stop stops it', async () => {
  const [one, other] = await Promise.all([start(), start()]);
  expect(one.url).toBe(other.url);
  const pid = await postmaster();
  await one.stop();
  expect(await queryRows(other.url, 'select 1 as one')).toEqual([{ one: 1 }]);
  await other.stop();
  expect(await postmaster()).toBe(0);
  expect(pid).toBeGreaterThan(0);
});

test('a server that outlived its killed starter is used again', async () => {
  const program = `
    import { startEmbedded } from './src/embedded/embedded-postgres.ts';
    const quiet = { debug() {}, info() {}, warn() {}, error() {} };
    await startEmbedded(${JSON.stringify(directory)}, quiet, ${JSON.stringify(FAST)});
    console.log('up');
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', program], { stdio: 'pipe' });
  await once(child.stdout, 'data');
  const pid = await postmaster();
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(isAlive(pid)).toBe(true);
  const adopted = await start();
  expect(await postmaster()).toBe(pid);
  expect(await queryRows(adopted.url, 'select 1 as one')).toEqual([{ one: 1 }]);
  await adopted.stop();
  expect(await postmaster()).toBe(0);
});

test('a server that is killed is reported and started again, and pools find it', async () => {
  const errors: string[] = [];
  let started = 0;
  let again: () => void = () => {};
  const restarted = new Promise<void>((resolve) => {
    again = resolve;
  });
  const log: Log = {
    ...quiet,
    info: () => {
      started += 1;
      if (started === 2) again();
    },
    error: (message) => errors.push(message),
  };
  const embedded = await start(log);
  const database = createDatabase(databaseConfig(embedded.url), quiet);
  await database.reads.rows('select 1');
  process.kill(await postmaster(), 'SIGKILL');
  await restarted;
  expect(errors[0]).toBe('The embedded database has ended unexpectedly; starting it again');
  await database.reads.rows('select 1').catch(() => {});
  expect(await database.reads.rows('select 1 as one')).toEqual([{ one: 1 }]);
  await database.close();
});

test('leftovers of a crash whose process number belongs to a stranger now do not matter', async () => {
  const first = await start();
  await first.stop();
  const home = await homeOf(directory);
  // This very process is alive, and no server of that directory.
  await writeFile(
    join(home, 'pg', 'postmaster.pid'),
    `${process.pid}\n${home}/pg\n1\n5432\n${home}/run\n\n1 1\nready\n`,
  );
  await writeFile(join(home, 'run', '.s.PGSQL.5432.lock'), `${process.pid}\n`);
  await writeFile(join(home, 'starting.pid'), '99999999');
  const second = await start();
  expect(await queryRows(second.url, 'select 1 as one')).toEqual([{ one: 1 }]);
});

test('a directory of another major version is refused with the remedy', async () => {
  await (await start()).stop();
  await writeFile(join(await homeOf(directory), 'pg', 'PG_VERSION'), '12\n');
  await expect(start()).rejects.toThrow(/made by PostgreSQL 12, and this build brings \d+; dump it/);
});

test('a data directory that cannot be made is refused with the remedy', async () => {
  const file = join(directory, 'file');
  await writeFile(file, '');
  await expect(start(quiet, join(file, 'below'))).rejects.toThrow(/cannot be written; set SVC_DATA_DIR/);
});

test('a data directory with a very long name works', async () => {
  const deep = join(directory, 'd'.repeat(90), 'e'.repeat(90));
  await mkdir(deep, { recursive: true });
  const embedded = await start(quiet, deep);
  expect(await queryRows(embedded.url, 'select 1 as one')).toEqual([{ one: 1 }]);
  await embedded.stop();
});

test.runIf(process.getuid?.() === 0)('a directory closed to other accounts keeps its cluster elsewhere', async () => {
  const closed = join(directory, 'closed');
  const data = join(closed, 'data');
  await mkdir(data, { recursive: true });
  await chmod(closed, 0o700);
  const embedded = await start(quiet, data);
  expect(await queryRows(embedded.url, 'select 1 as one')).toEqual([{ one: 1 }]);
  const elsewhere = (await readFile(join(data, 'pg-location'), 'utf8')).trim();
  await embedded.stop();
  expect(findPostmaster(join(elsewhere, 'pg'))).toBeNull();
  await rm(elsewhere, { recursive: true, force: true });
});

test('on request it also listens on a port of this machine, with a password', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  server.close();
  await once(server, 'close');
  const embedded = await startEmbedded(directory, quiet, { ...FAST, tcp: { port, password: 'p@ss word' } });
  running.push(embedded);
  expect(embedded.url).toContain(`@127.0.0.1:${port}/callboard`);
  expect(await queryRows(embedded.url, 'select 1 as one')).toEqual([{ one: 1 }]);
  await expect(queryRows(embedded.url.replace('p%40ss', 'wrong'), 'select 1')).rejects.toMatchObject({ code: '28P01' });
});
