/** DuckDB as a side of a transfer, each in a process of its own. A chunk is written as one JSON parameter. */
import { columnTypes, insertRows } from '../duckdb/insert.ts';
import { onConflict, quotedTable } from '../duckdb/names.ts';
import { type DuckdbSettings, openDuckdb } from '../duckdb/process.ts';
import { oneStatement, type WriteSettings } from './postgres-side.ts';
import { asMaps, lastOfKey, type RowSource, type RowTarget } from './rows.ts';

export async function duckdbSource(settings: DuckdbSettings, query: string, signal: AbortSignal): Promise<RowSource> {
  const readOnly = settings.database !== ':memory:';
  const duckdb = await openDuckdb({ ...settings, readOnly }, signal);
  try {
    await duckdb.seal();
    const columns = await duckdb.stream(oneStatement(query, 'source.query'));
    return {
      next: async (count) => asMaps(columns, (await duckdb.fetch(count)).rows),
      [Symbol.asyncDispose]: () => duckdb[Symbol.asyncDispose](),
    };
  } catch (error) {
    await duckdb[Symbol.asyncDispose]();
    throw error;
  }
}

export async function duckdbTarget(
  settings: DuckdbSettings,
  write: WriteSettings,
  signal: AbortSignal,
): Promise<RowTarget> {
  const duckdb = await openDuckdb(settings, signal);
  try {
    await duckdb.seal();
    await duckdb.run('begin');
    const table = write.query === null ? quotedTable(write.table, 3) : '';
    if (write.query === null && write.mode === 'replace') await duckdb.run(`delete from ${table}`);
    const types = write.query === null ? await columnTypes(duckdb, table) : new Map<string, string>();
    return {
      async write(columns, rows) {
        if (write.query !== null) {
          const statement = oneStatement(write.query, 'target.query');
          for (const row of rows) await duckdb.run(statement, row);
          return;
        }
        const tail = write.mode === 'upsert' ? ` ${onConflict(columns, write.key)}` : '';
        const kept = write.mode === 'upsert' ? lastOfKey(columns, rows, write.key) : rows;
        await insertRows(duckdb, table, types, columns, kept, tail);
      },
      commit: async () => void (await duckdb.run('commit')),
      [Symbol.asyncDispose]: () => duckdb[Symbol.asyncDispose](),
    };
  } catch (error) {
    await duckdb[Symbol.asyncDispose]();
    throw error;
  }
}
