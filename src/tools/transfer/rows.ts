/** What flows in a transfer: maps from column to JSON value, in pieces, from anything that has rows to anything that takes them. */
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { valueAt } from '../../../machines/playbook/summary.ts';
import { FieldProblem, scalarText } from '../fields.ts';

export interface RowSource extends AsyncDisposable {
  /** At most `count` rows; none at the end. */
  next(count: number): Promise<readonly JsonMap[]>;
}

export interface RowTarget extends AsyncDisposable {
  /** Writes rows of these columns inside the one transaction of the transfer. */
  write(columns: readonly string[], rows: readonly (readonly Json[])[]): Promise<void>;
  /** Without it, disposal leaves nothing of what was written. */
  commit(): Promise<void>;
}

export type Mode = 'append' | 'replace' | 'upsert';

/** `{column: path in the source row}`; null takes the columns of the source as they are. */
export type Mapping = readonly (readonly [column: string, path: string])[] | null;

export function readMapping(value: Json | undefined): Mapping {
  if (value === undefined || value === null || value === '') return null;
  if (!isMap(value)) throw new FieldProblem(`field 'target.mapping' must be a map of column to source path`);
  const pairs = Object.entries(value).map(([column, path]) => {
    if (typeof path === 'object') throw new FieldProblem(`the source path of column '${column}' must be text`);
    return [column, scalarText(path)] as const;
  });
  return pairs.length === 0 ? null : pairs;
}

/** The columns of a piece: those of the mapping, else every key of its rows in the order in which they are first seen. */
export function columnsOf(rows: readonly JsonMap[], mapping: Mapping): string[] {
  return mapping === null ? [...new Set(rows.flatMap((row) => Object.keys(row)))] : mapping.map(([column]) => column);
}

/** A column that is named like the path wins over what the path leads to. */
export function pick(row: JsonMap, columns: readonly string[], mapping: Mapping): Json[] {
  const at = (path: string) => (Object.hasOwn(row, path) ? row[path] : valueAt(row, path)) ?? null;
  return mapping === null ? columns.map((column) => own(row, column)) : mapping.map(([, path]) => at(path));
}

function own(row: JsonMap, column: string): Json {
  return (Object.hasOwn(row, column) ? row[column] : null) ?? null;
}

/** Rows as lists become rows as maps. */
export function asMaps(columns: readonly string[], rows: readonly (readonly Json[])[]): JsonMap[] {
  return rows.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at] ?? null])));
}

/** The last row of each key: one statement may not touch a row twice. */
export function lastOfKey(
  columns: readonly string[],
  rows: readonly (readonly Json[])[],
  key: readonly string[],
): readonly (readonly Json[])[] {
  const places = key.map((column) => columns.indexOf(column));
  const byKey = new Map<string, readonly Json[]>();
  for (const row of rows) {
    const id = JSON.stringify(places.map((at) => row[at] ?? null));
    byKey.delete(id);
    byKey.set(id, row);
  }
  return [...byKey.values()];
}
