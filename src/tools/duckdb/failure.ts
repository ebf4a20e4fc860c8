/** What an error of the duckdb engine means for a try (language 7.4), by the category its message begins with. */
import { type ErrorKind, failure } from '../errors.ts';
import type { ToolFailure } from '../tool.ts';
import { DuckdbError, DuckdbLost, RowsTooLarge } from './process.ts';

const kinds: Readonly<Record<string, ErrorKind>> = {
  Parser: 'schema',
  Syntax: 'schema',
  Catalog: 'schema',
  Binder: 'schema',
  Conversion: 'schema',
  'Out of Range': 'schema',
  'Invalid Input': 'schema',
  'Invalid Type': 'schema',
  'Mismatch Type': 'schema',
  Constraint: 'db_constraint',
  Permission: 'config',
  'Missing Extension': 'config',
  IO: 'storage_access',
  HTTP: 'connection',
};

/** Null for an error that is none of the engine's. `where` names the statement. */
export function explainDuckdb(error: unknown, where: string): ToolFailure | null {
  if (error instanceof RowsTooLarge) return failure('logic', 'RESULT_TOO_LARGE', error.message);
  if (error instanceof DuckdbLost) return failure('unknown', 'DUCKDB_LOST', error.message);
  if (!(error instanceof DuckdbError)) return null;
  const { category, message } = error;
  const code = `DUCKDB_${category.toUpperCase().replace(/\W+/g, '_')}`;
  // A file another process holds may be free the next time.
  if (/could not set lock on file/i.test(message)) return failure('db_connection', 'DUCKDB_LOCKED', message + where);
  const hint = category === 'Permission' ? ' (see SVC_DUCKDB_EXTERNAL_ACCESS)' : '';
  return failure(kinds[category] ?? 'unknown', code, message + hint + where);
}
