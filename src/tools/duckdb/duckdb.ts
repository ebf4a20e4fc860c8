/**
 * Kind `duckdb` (language 11.11): statements run one by one in a process of their own, on a fresh database in memory or
 * on a file, and stop at the first error. Without the operator's leave they reach no files, no network and no
 * extensions, however they are written.
 */
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { spellSeconds, startDeadline } from '../deadline.ts';
import { failure } from '../errors.ts';
import { FieldProblem, fieldOf, flagOf, scalarText, textOf } from '../fields.ts';
import { splitStatements } from '../postgres/split.ts';
import type { ResolvedAuth, Tool, ToolOutcome } from '../tool.ts';
import { attachAll, attachmentsOf } from './attach.ts';
import { explainDuckdb } from './failure.ts';
import { type Duckdb, openDuckdb } from './process.ts';
import type { Params, StatementAnswer } from './protocol.ts';

export interface DuckdbOptions {
  readonly timeoutMs: number;
  readonly memoryMb: number;
  readonly externalAccess: boolean;
  /** Cap of the rows one try may read, in bytes of JSON. */
  readonly maxResultBytes: number;
  /** Of the process; nothing of the worker's own but what children may see. */
  readonly environment: Readonly<Record<string, string>>;
}

/** A duckdb tool; each try has a process of its own. */
export function createDuckdb(options: DuckdbOptions): Tool {
  return {
    kind: 'duckdb',
    async run(call) {
      const { fields, signal } = call;
      const statements = readStatements(fields);
      const params = readParams(fieldOf(fields, 'params', 'parameters'), statements.length);
      const asObjects = flagOf(fields, true, 'as_objects');
      const database = readDatabase(fields, call.auth);
      const attachments = await attachmentsOf(call);
      const limitMs = call.timeoutMs ?? options.timeoutMs;
      using deadline = startDeadline(limitMs, signal);
      try {
        await using duckdb = await openDuckdb({ ...options, database }, deadline.signal);
        await using _copies = await attachAll(duckdb, attachments, statements, limitMs, deadline.signal);
        await duckdb.seal();
        return await runAll(duckdb, statements, params, asObjects, options.maxResultBytes);
      } catch (error) {
        if (deadline.why() === 'timeout')
          return failure('timeout', 'TOOL_TIMEOUT', `the statements timed out after ${spellSeconds(limitMs)}`);
        if (deadline.why() === 'cancelled') return failure('unknown', 'CANCELLED', 'the statements were stopped');
        const explained = explainDuckdb(error, '');
        if (explained === null) throw error;
        return explained;
      }
    },
  };
}

async function runAll(
  duckdb: Duckdb,
  statements: readonly string[],
  params: Params,
  asObjects: boolean,
  maxBytes: number,
): Promise<ToolOutcome> {
  let last: StatementAnswer | null = null;
  for (const [index, statement] of statements.entries()) {
    try {
      last = await duckdb.run(statement, params, maxBytes);
    } catch (error) {
      const where = statements.length === 1 ? '' : ` (statement ${index + 1} of ${statements.length})`;
      const explained = explainDuckdb(error, where);
      if (explained === null) throw error;
      return { ...explained, error: { ...explained.error, details: { statement: index } } };
    }
  }
  if (last === null) throw new FieldProblem(`field 'command' has no statement`);
  const { described, columns, rows, count } = last;
  const toMap = (row: readonly Json[]) => Object.fromEntries(columns.map((column, at) => [column, row[at] ?? null]));
  const data: JsonMap = {
    status: 'success',
    rows: asObjects ? rows.map(toMap) : rows,
    columns,
    row_count: count,
    ...(!described && { affected_rows: count }),
    statement_count: statements.length,
  };
  return { ok: true, data };
}

function readStatements(fields: JsonMap): string[] {
  const value = fieldOf(fields, 'command', 'query', 'sql', 'commands');
  const texts = (Array.isArray(value) ? value : value === undefined ? [] : [value]).map((item: Json) => {
    if (typeof item === 'object' && item !== null) throw new FieldProblem(`field 'commands' must be a list of texts`);
    return scalarText(item);
  });
  if (texts.some((text) => text.includes('\0'))) throw new FieldProblem('the SQL text has a NUL character');
  const statements = texts.flatMap(splitStatements);
  if (statements.length === 0) throw new FieldProblem(`field 'command' is missing or empty`);
  return statements;
}

function readParams(value: Json | undefined, statements: number): Params {
  if (value === undefined || value === '') return null;
  if (!Array.isArray(value) && !isMap(value)) throw new FieldProblem(`field 'params' must be a list or a map`);
  if (Object.keys(value).length === 0) return null;
  if (statements > 1) throw new FieldProblem(`field 'params' needs a single statement, not ${statements}`);
  return value;
}

/** A path relative to the worker's folder, or the fresh database in memory. */
export function readDatabase(fields: JsonMap, auth: ResolvedAuth | null): string {
  const merged = auth !== null && /^(?:custom|generic)$/i.test(auth.type) ? auth.data : {};
  const database = (textOf(fields, 'database', 'db_path') ?? textOf(merged, 'database', 'db_path', 'path'))?.trim();
  if (database === undefined || database === '') return ':memory:';
  if (database.includes('\0')) throw new FieldProblem(`field 'database' has a NUL character`);
  return database;
}
