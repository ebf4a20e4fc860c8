/**
 * PostgreSQL databases that the statements of a duckdb task may read under an alias (language 11.11). DuckDB's own
 * extension for that would have to be fetched from the network, so the tables that the statements mention are copied
 * into a file of the try and attached read-only: what a statement sees is a snapshot, and writing to it is an error
 * instead of a write that nobody finds again.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isMap, type JsonMap } from '../../../machines/json.ts';
import { unusableCredential } from '../credentials.ts';
import { ToolRefusal } from '../errors.ts';
import { FieldProblem, mapOf, textOf } from '../fields.ts';
import { type ConnectionConfig, readConnection } from '../postgres/connection.ts';
import { type Dedicated, openDedicated } from '../postgres/dedicated.ts';
import { explainDatabase } from '../postgres/postgres.ts';
import type { ToolCall } from '../tool.ts';
import { insertRows } from './insert.ts';
import { type Mention, mentionsOf } from './mentions.ts';
import { quoted } from './names.ts';
import type { Duckdb } from './process.ts';

export interface Attachment {
  readonly alias: string;
  readonly config: ConnectionConfig;
}

const chunk = 5_000;

/** The databases of `auth`: a map by alias, or one postgres credential under its own name. Throws FieldProblem. */
export async function attachmentsOf({ fields, auth, host }: ToolCall): Promise<readonly Attachment[]> {
  if (auth !== null) {
    const type = auth.type.toLowerCase();
    if (type === 'postgres' || type === 'postgresql') {
      return [{ alias: auth.name ?? 'postgres', config: readConnection({}, auth) }];
    }
    // A user and a password are nothing to a file, and no mistake either (language 12.2).
    if (type === 'custom' || type === 'generic' || type === 'basic' || type === 'none') return [];
    throw unusableCredential(auth, 'duckdb');
  }
  const found: Attachment[] = [];
  for (const [alias, entry] of Object.entries(mapOf(fields, 'auth') ?? {})) {
    if (!isMap(entry)) throw new FieldProblem(`field 'auth.${alias}' must be a map`);
    found.push({ alias, config: await configOf(alias, entry, host) });
  }
  return found;
}

async function configOf(alias: string, entry: JsonMap, host: ToolCall['host']): Promise<ConnectionConfig> {
  const tool = (textOf(entry, 'tool', 'type') ?? 'postgres').toLowerCase();
  if (tool !== 'postgres') throw new FieldProblem(`'${alias}' cannot be attached: only tool postgres can`);
  const source = (textOf(entry, 'source') ?? 'credential').toLowerCase();
  if (source !== 'credential') throw new FieldProblem(`'${alias}' cannot be attached: only source credential can`);
  const key = textOf(entry, 'key', 'credential', 'name');
  if (key === undefined || key === '') throw new FieldProblem(`'${alias}' names no credential in 'key'`);
  return readConnection({}, await host.credential(key));
}

/** Copies what the statements mention. Dispose it after the process has ended; then the copies are gone. */
export async function attachAll(
  duckdb: Duckdb,
  attachments: readonly Attachment[],
  statements: readonly string[],
  limitMs: number,
  signal: AbortSignal,
): Promise<AsyncDisposable> {
  if (attachments.length === 0) return { async [Symbol.asyncDispose]() {} };
  const folder = await mkdtemp(join(tmpdir(), 'callboard-attach-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    for (const [index, { alias, config }] of attachments.entries()) {
      const file = `'${join(folder, `${index}.duckdb`).replaceAll("'", "''")}'`;
      await duckdb.run(`attach ${file} as ${quoted(alias)}`);
      const tables = mentionsOf(statements, alias);
      if (tables.length > 0) await copyTables(duckdb, { alias, config }, tables, limitMs, signal);
      await duckdb.run(`detach ${quoted(alias)}`);
      await duckdb.run(`attach ${file} as ${quoted(alias)} (read_only)`);
    }
    return { [Symbol.asyncDispose]: remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function copyTables(
  duckdb: Duckdb,
  { alias, config }: Attachment,
  tables: readonly Mention[],
  limitMs: number,
  signal: AbortSignal,
): Promise<void> {
  try {
    await using postgres = await openDedicated(config, limitMs, signal);
    await postgres.query('begin isolation level repeatable read read only');
    for (const mention of tables) await copyTable(duckdb, alias, postgres, mention);
  } catch (error) {
    signal.throwIfAborted();
    // What duckdb itself says is explained where its other errors are.
    if (error instanceof Error && error.name.startsWith('Duckdb')) throw error;
    throw new ToolRefusal(explainDatabase(error, config));
  }
}

/** Does nothing for what is no table; then duckdb says so. */
async function copyTable(duckdb: Duckdb, alias: string, postgres: Dedicated, mention: Mention): Promise<void> {
  const origin = await findTable(postgres, mention);
  if (origin === null) return;
  const { rows: described } = await postgres.query(
    `select attname, format_type(atttypid, atttypmod) from pg_attribute
     where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum`,
    [origin],
  );
  const types = new Map(described.map(([name, type]) => [String(name), duckdbType(String(type))]));
  const schema = `${quoted(alias)}.${quoted(mention.length > 1 ? (mention[0] ?? '') : 'main')}`;
  const copy = `${schema}.${quoted(mention.at(-1) ?? '')}`;
  await duckdb.run(`create schema if not exists ${schema}`);
  await duckdb.run(`create table ${copy} (${[...types].map(([name, type]) => `${quoted(name)} ${type}`).join(', ')})`);
  await postgres.query(`declare callboard_rows no scroll cursor for select * from ${origin}`);
  for (;;) {
    const { columns, rows } = await postgres.query(`fetch forward ${chunk} from callboard_rows`);
    if (rows.length === 0) break;
    await insertRows(duckdb, copy, types, columns, rows);
  }
  await postgres.query('close callboard_rows');
}

/** The name of the table as SQL; as it is written, else in lower case, because DuckDB does not tell the two apart. */
async function findTable(postgres: Dedicated, mention: Mention): Promise<string | null> {
  const spelled = [mention, mention.map((part) => part.toLowerCase())].map((parts) => parts.map(quoted).join('.'));
  const { rows } = await postgres.query(
    `select name from unnest($1::text[]) with ordinality spelled(name, place)
     join pg_class on pg_class.oid = to_regclass(name) and relkind in ('r', 'p', 'v', 'm', 'f') order by place limit 1`,
    [spelled],
  );
  const name = rows[0]?.[0];
  return typeof name === 'string' ? name : null;
}

const plainTypes: Readonly<Record<string, string>> = {
  smallint: 'SMALLINT',
  integer: 'INTEGER',
  bigint: 'BIGINT',
  real: 'FLOAT',
  'double precision': 'DOUBLE',
  boolean: 'BOOLEAN',
  date: 'DATE',
  uuid: 'UUID',
  json: 'JSON',
  jsonb: 'JSON',
  bytea: 'BLOB',
  numeric: 'DOUBLE',
};

/** The DuckDB type of a PostgreSQL type; what has no counterpart is text. */
export function duckdbType(type: string): string {
  if (type.endsWith('[]')) return `${duckdbType(type.slice(0, -2))}[]`;
  if (Object.hasOwn(plainTypes, type)) return plainTypes[type] ?? 'VARCHAR';
  const decimal = /^numeric\((\d+),(\d+)\)$/.exec(type);
  if (decimal !== null) return Number(decimal[1]) <= 38 ? `DECIMAL(${decimal[1]},${decimal[2]})` : 'DOUBLE';
  if (/^timestamp(?:\(\d\))? without time zone$/.test(type)) return 'TIMESTAMP';
  if (/^timestamp(?:\(\d\))? with time zone$/.test(type)) return 'TIMESTAMPTZ';
  if (/^time(?:\(\d\))? without time zone$/.test(type)) return 'TIME';
  return 'VARCHAR';
}
