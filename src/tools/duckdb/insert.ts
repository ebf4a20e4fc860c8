/** Rows into a table of DuckDB, as one JSON parameter: text of JSON is how values get past the process boundary anyway. */
import type { Json } from '../../../machines/json.ts';
import { quoted } from './names.ts';
import type { Duckdb } from './process.ts';

/** The SQL types of a table's columns, by name. */
export async function columnTypes(duckdb: Duckdb, table: string): Promise<Map<string, string>> {
  const { rows } = await duckdb.run(`select column_name, column_type from (describe ${table})`);
  return new Map(rows.map(([name, type]) => [String(name), String(type)]));
}

/** One statement for all rows: the engine takes each value out of the JSON and casts it to the type of its column. */
export async function insertRows(
  duckdb: Duckdb,
  table: string,
  types: ReadonlyMap<string, string>,
  columns: readonly string[],
  rows: readonly (readonly Json[])[],
  tail = '',
): Promise<void> {
  const values = columns.map((column, at) => {
    const text = `(j ->> '$[${at}]')`;
    const type = types.get(column) ?? 'VARCHAR';
    if (type === 'BLOB') return `from_base64${text}`;
    // A JSON null is no value here; other JSON keeps its quotes.
    if (type === 'JSON') return `case when json_type(j, '$[${at}]') = 'NULL' then null else j -> '$[${at}]' end`;
    return `cast(${text} as ${type})`;
  });
  await duckdb.run(
    `insert into ${table} (${columns.map(quoted).join(', ')}) select ${values.join(', ')}` +
      ` from (select unnest(from_json($1, '["JSON"]')) as j)${tail}`,
    [JSON.stringify(rows)],
  );
}
