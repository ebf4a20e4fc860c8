/**
 * PostgreSQL as a side of a transfer. Rows are read through a cursor in a read-only transaction; they are written as one
 * JSON parameter per chunk, which the server turns into the types of the table by itself.
 */
import type { Json } from '../../../machines/json.ts';
import { onConflict, quoted, quotedTable } from '../duckdb/names.ts';
import { FieldProblem } from '../fields.ts';
import type { ConnectionConfig } from '../postgres/connection.ts';
import { type Dedicated, openDedicated } from '../postgres/dedicated.ts';
import { splitStatements } from '../postgres/split.ts';
import { asMaps, lastOfKey, type Mode, type RowSource, type RowTarget } from './rows.ts';

export interface WriteSettings {
  readonly table: string;
  /** An insert of the author's own, run per row with its columns as `$1`…; null for the one made here. */
  readonly query: string | null;
  readonly mode: Mode;
  readonly key: readonly string[];
}

/** One statement without its semicolon; throws FieldProblem for none or several. */
export function oneStatement(sql: string, field: string): string {
  const [statement, ...more] = splitStatements(sql);
  if (statement === undefined || more.length > 0) throw new FieldProblem(`field '${field}' must be one statement`);
  return statement;
}

export async function postgresSource(
  config: ConnectionConfig,
  query: string,
  limitMs: number,
  signal: AbortSignal,
): Promise<RowSource> {
  const connection = await openDedicated(config, limitMs, signal);
  try {
    await connection.query('begin read only');
    await connection.query(`declare callboard_rows no scroll cursor for ${oneStatement(query, 'source.query')}`);
  } catch (error) {
    await connection[Symbol.asyncDispose]();
    throw error;
  }
  return {
    async next(count) {
      const { columns, rows } = await connection.query(`fetch forward ${count} from callboard_rows`);
      return asMaps(columns, rows);
    },
    [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose](),
  };
}

export async function postgresTarget(
  config: ConnectionConfig,
  settings: WriteSettings,
  limitMs: number,
  signal: AbortSignal,
): Promise<RowTarget> {
  const connection = await openDedicated(config, limitMs, signal);
  try {
    await connection.query('begin');
    const table = settings.query === null ? quotedTable(settings.table, 2) : '';
    if (settings.query === null && settings.mode === 'replace') await connection.query(`delete from ${table}`);
    const bytes = settings.query === null ? await byteColumns(connection, table) : new Set<string>();
    return {
      async write(columns, rows) {
        if (settings.query !== null) {
          const statement = oneStatement(settings.query, 'target.query');
          for (const row of rows) await connection.query(statement, row.map(parameter));
          return;
        }
        const names = columns.map(quoted).join(', ');
        const { mode, key } = settings;
        const tail = mode === 'upsert' ? ` ${onConflict(columns, key)}` : '';
        const kept = mode === 'upsert' ? lastOfKey(columns, rows, key) : rows;
        const records = asMaps(
          columns,
          kept.map((row) => row.map((value, at) => (bytes.has(columns[at] ?? '') ? hex(value) : value))),
        );
        await connection.query(
          `insert into ${table} (${names}) select ${names} from json_populate_recordset(null::${table}, $1::json)${tail}`,
          [JSON.stringify(records)],
        );
      },
      commit: async () => void (await connection.query('commit')),
      [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose](),
    };
  } catch (error) {
    await connection[Symbol.asyncDispose]();
    throw error;
  }
}

async function byteColumns(connection: Dedicated, table: string): Promise<Set<string>> {
  const { rows } = await connection.query(
    `select attname::text from pg_attribute where attrelid = $1::regclass and atttypid = 'bytea'::regtype and attnum > 0`,
    [table],
  );
  return new Set(rows.map(([name]) => String(name)));
}

/** Bytes travel as base64 between the sides. */
function hex(value: Json): Json {
  return typeof value === 'string' ? `\\x${Buffer.from(value, 'base64').toString('hex')}` : value;
}

/** A list of scalars is an array, everything else that is no scalar is JSON. */
function parameter(value: Json): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const scalars = Array.isArray(value) && value.every((item) => typeof item !== 'object' || item === null);
  return scalars ? value : JSON.stringify(value);
}
