/**
 * Brings the schema to the version of this build: numbered SQL files, forward only, each in its own transaction, one
 * process at a time. Every applied file keeps its checksum, so a file that was edited after the fact is noticed.
 * Runs on a plain connection: a migration may take longer than the pools allow a statement to.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import type { Sql } from './pool.ts';

/** The schema and this build do not fit; the process should exit with 78. The message says what to do. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
}

export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
  readonly checksum: string;
  /** Servers of an older build cannot run on the schema afterwards. */
  readonly breaking: boolean;
}

export interface MigrateOptions {
  /** Ends the wait for another process, and a migration that is under way. */
  readonly signal?: AbortSignal | undefined;
  /** Looks at the database as it was found, which may be empty; a throw leaves it like that. */
  before?(database: Pick<Sql, 'rows'>): Promise<void>;
  /** Instead of those of this build. */
  readonly migrations?: readonly Migration[];
}

const DIRECTORY = fileURLToPath(new URL('../../migrations/', import.meta.url));
const OLDEST_SERVER = 140_000;
const CONNECT_WITHIN_MS = 10_000;
const LOCK_WITHIN_MS = 900;
const ASIDE_MS = 500;
/** Minutes; a transaction that holds a table for longer has to be ended by a person. */
const LOCK_TRIES = 300;
const FILE_NAME = /^(\d{4})_([a-z0-9_]+)\.sql$/;

/**
 * Applies what is missing. Throws SchemaError, what the connection or a migration failed with, or the signal's reason:
 * another process may be at it for long, and what is cut off is rolled back.
 */
export async function migrate(
  url: string,
  options: MigrateOptions = {},
): Promise<{ readonly version: number; readonly applied: readonly string[] }> {
  const { signal, before } = options;
  signal?.throwIfAborted();
  const socket = new Socket();
  const client = new pg.Client({
    connectionString: url,
    application_name: 'callboard:migrate',
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_WITHIN_MS,
    stream: () => socket,
  });
  client.on('error', () => {});
  // An orderly end would wait for what the other side says, which may be nothing.
  const cutOff = (): void => void socket.destroy();
  signal?.addEventListener('abort', cutOff, { once: true });
  try {
    await client.connect();
    await requireServerVersion(client);
    await client.query(`select pg_advisory_lock(hashtextextended('core.migrate', 0))`);
    await before?.({ rows: async (text) => (await client.query(text)).rows });
    return await applyAll(client, options.migrations ?? (await readMigrations()));
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener('abort', cutOff);
    await client.end();
  }
}

/** The migrations of this build in order. */
export async function readMigrations(): Promise<readonly Migration[]> {
  const migrations: Migration[] = [];
  for (const file of (await readdir(DIRECTORY)).sort()) {
    const match = FILE_NAME.exec(file);
    if (match === null) continue;
    const sql = await readFile(`${DIRECTORY}${file}`, 'utf8');
    migrations.push({
      version: Number(match[1]),
      name: file,
      sql,
      checksum: createHash('sha256').update(sql).digest('hex'),
      breaking: /^-- breaking: yes\b/m.test(sql),
    });
  }
  return migrations;
}

async function requireServerVersion(client: pg.Client): Promise<void> {
  const answer = await client.query<{ version: number }>(
    `select current_setting('server_version_num')::int as version`,
  );
  const version = answer.rows[0]?.version ?? 0;
  if (version < OLDEST_SERVER) {
    throw new SchemaError(
      `PostgreSQL ${Math.floor(version / 10_000)} is too old: version 14 or newer is needed; upgrade the server`,
    );
  }
}

async function applyAll(client: pg.Client, migrations: readonly Migration[]) {
  await client.query('create schema if not exists core');
  await client.query(`
    create table if not exists core.schema_migration (
      version int primary key,
      name text not null,
      breaking boolean not null,
      applied_at timestamptz not null default clock_timestamp(),
      checksum text not null
    )`);
  const answer = await client.query<{ version: number; name: string; breaking: boolean; checksum: string }>(
    'select version, name, breaking, checksum from core.schema_migration order by version',
  );
  const present = new Map(answer.rows.map((row) => [row.version, row]));
  const newest = migrations.at(-1)?.version ?? 0;
  const beyond = answer.rows.find((row) => row.version > newest && row.breaking);
  if (beyond !== undefined) {
    throw new SchemaError(
      `The database has schema version ${beyond.version} (${beyond.name}), this build knows ${newest}; start the newer build`,
    );
  }
  const applied: string[] = [];
  for (const migration of migrations) {
    const row = present.get(migration.version);
    if (row === undefined) {
      await applyOne(client, migration);
      applied.push(migration.name);
    } else if (row.checksum !== migration.checksum) {
      throw new SchemaError(
        `Migration ${migration.name} differs from the one the database was built with (${row.name}); restore the file`,
      );
    }
  }
  return { version: Math.max(newest, answer.rows.at(-1)?.version ?? 0), applied };
}

/**
 * Whoever wants a table behind a migration that waits for it waits too, so it never waits for long: it steps aside, lets
 * the others through, and comes back.
 */
async function applyOne(client: pg.Client, migration: Migration): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await applyOnce(client, migration);
      return;
    } catch (error) {
      if (tries === LOCK_TRIES || !isLockTimeout(error)) throw error;
      await pause(ASIDE_MS);
    }
  }
}

function isLockTimeout(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : null;
  return cause instanceof pg.DatabaseError && cause.code === '55P03';
}

async function applyOnce(client: pg.Client, migration: Migration): Promise<void> {
  await client.query('begin');
  try {
    await client.query(`set local lock_timeout = ${LOCK_WITHIN_MS}`);
    await client.query(migration.sql);
    await client.query(
      'insert into core.schema_migration (version, name, breaking, checksum) values ($1, $2, $3, $4)',
      [migration.version, migration.name, migration.breaking, migration.checksum],
    );
    await client.query('commit');
  } catch (cause) {
    await client.query('rollback').catch(() => {});
    throw new Error(`Migration ${migration.name} failed`, { cause });
  }
}
