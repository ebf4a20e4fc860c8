/**
 * A migrated database of its own for a test file. The cluster of the run is started by the first file that asks
 * (postgres-run.ts removes it); the schema is migrated once into a template, and a file gets a copy of that. With
 * SVC_TEST_DATABASE_URL the databases are made on that server instead.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import pg from 'pg';
import type { Log } from '../../actors/ports.ts';
import { closeCluster, openCluster } from '../../src/embedded/cluster.ts';
import { migrate } from '../../src/store/migrate.ts';

export interface TestPostgres {
  readonly url: string;
  stop(): Promise<void>;
}

export const quiet: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** Loss of power is not among the things tests check. */
const FAST = { fsync: 'off', full_page_writes: 'off', shared_buffers: '64MB' };

/** A fresh database; `migrated: false` gives an empty one. */
export async function startTestPostgres(options: { migrated?: boolean } = {}): Promise<TestPostgres> {
  const run = process.env['CALLBOARD_TEST_RUN'] ?? null;
  const directory = run ?? (await mkdtemp(join(tmpdir(), 'callboard-alone-')));
  const server = process.env['SVC_TEST_DATABASE_URL'] ?? (await openCluster(directory, quiet, { settings: FAST })).url;
  const name = `test_${randomBytes(6).toString('hex')}`;
  await onServer(server, async (client) => {
    if (options.migrated === false) {
      await client.query(`create database ${name}`);
      return;
    }
    await client.query(`select pg_advisory_lock(hashtextextended('callboard.test.template', 0))`);
    const template = templateName(directory);
    const found = await client.query('select from pg_database where datname = $1', [template]);
    if (found.rowCount === 0) {
      await client.query(`drop database if exists ${template}_new with (force)`);
      await client.query(`create database ${template}_new`);
      await migrate(databaseUrl(server, `${template}_new`));
      await client.query(`alter database ${template}_new rename to ${template}`);
    }
    await client.query(`create database ${name} template ${template}`);
  });
  return {
    url: databaseUrl(server, name),
    async stop() {
      await onServer(server, (client) => client.query(`drop database if exists ${name} with (force)`));
      if (run !== null) return;
      if (process.env['SVC_TEST_DATABASE_URL'] !== undefined) {
        await onServer(server, (client) => client.query(`drop database if exists ${templateName(directory)}`));
      }
      await closeCluster(directory);
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Takes the run's template off a server that will outlive the run. */
export async function dropTemplate(): Promise<void> {
  const server = process.env['SVC_TEST_DATABASE_URL'];
  const run = process.env['CALLBOARD_TEST_RUN'];
  if (server === undefined || run === undefined || !existsSync(run)) return;
  await onServer(server, (client) => client.query(`drop database if exists ${templateName(run)}`));
}

/** One statement on a connection of its own; for tests that look at rows or break them. */
export async function queryRows<T extends pg.QueryResultRow>(
  url: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<T[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query<T>(text, [...values])).rows;
  } finally {
    await client.end();
  }
}

function templateName(directory: string): string {
  return `template_${basename(directory)
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '_')}`;
}

function databaseUrl(server: string, database: string): string {
  const url = new URL(server.replace('@/', '@socket/'));
  url.pathname = `/${database}`;
  return url.href.replace('@socket/', '@/');
}

async function onServer(server: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl(server, 'postgres') });
  client.on('error', () => {});
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
