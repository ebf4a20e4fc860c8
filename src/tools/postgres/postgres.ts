/**
 * Kind `postgres` (language 11.2): statements run one by one on one connection in autocommit and stop at the first
 * error. A try that runs out of time cancels its statement on the server and does not return before that is done.
 */
import type { PoolClient } from 'pg';
import type { Json, JsonMap } from '../../../machines/json.ts';
import type { ScriptLoader } from '../code.ts';
import { type Deadline, spellSeconds, startDeadline } from '../deadline.ts';
import { classifyNetwork, classifySqlstate, type FailureExtra, failure } from '../errors.ts';
import { FieldProblem, fieldOf, flagOf, mapOf, textOf } from '../fields.ts';
import type { Tool, ToolCall, ToolFailure, ToolOutcome } from '../tool.ts';
import { type ConnectionConfig, readConnection, searchPath } from './connection.ts';
import { createPools, type Pools } from './pools.ts';
import { openSession, ResultTooLarge, type Session, type StatementResult } from './session.ts';
import { splitStatements } from './split.ts';

export interface PostgresOptions {
  readonly timeoutMs: number;
  /** Cap of the rows one try may read, in bytes as they arrive. */
  readonly maxResultBytes: number;
  readonly scripts: ScriptLoader;
}

/** A postgres tool; `close` ends its pools. */
export function createPostgres(options: PostgresOptions): Tool {
  const pools = createPools();
  return {
    kind: 'postgres',
    close: () => pools.close(),
    async run(call) {
      const { fields } = call;
      const config = readConnection(fields, call.auth);
      const path = searchPath(fields);
      const asObjects = flagOf(fields, true, 'as_objects');
      const limitMs = call.timeoutMs ?? options.timeoutMs;
      using deadline = startDeadline(limitMs, call.signal);
      const statements = splitStatements(await readSql(call, options.scripts, deadline.signal));
      const params = readParams(fieldOf(fields, 'params', 'parameters'), statements.length);
      let client: PoolClient;
      try {
        client = await takeInTime(pools, config, deadline.signal);
      } catch (error) {
        return ended(deadline, limitMs) ?? explainConnection(error, config);
      }
      const settings = { config, path, limitMs, maxResultBytes: options.maxResultBytes };
      let session: Session | null = null;
      try {
        session = await openSession(client, settings, deadline.signal);
        return await runAll(session, statements, params, asObjects, deadline, limitMs);
      } catch (error) {
        return ended(deadline, limitMs) ?? explain(error, config, '');
      } finally {
        await pools.giveBack(client, session === null || session.broken());
      }
    },
  };
}

async function readSql(call: ToolCall, load: ScriptLoader, signal: AbortSignal): Promise<string> {
  const written = textOf(call.fields, 'command', 'query', 'sql');
  if (written !== undefined && written.trim() !== '') return checkedSql(written);
  const script = mapOf(call.fields, 'script');
  if (script === undefined) throw new FieldProblem(`field 'command' is missing or empty`);
  return checkedSql(await load(script, call, signal));
}

function checkedSql(sql: string): string {
  if (sql.includes('\0')) throw new FieldProblem('the SQL text has a NUL character');
  return sql;
}

function readParams(value: Json | undefined, statements: number): readonly Json[] | null {
  if (statements === 0) throw new FieldProblem(`field 'command' has no statement`);
  if (value === undefined || value === '') return null;
  if (!Array.isArray(value)) throw new FieldProblem(`field 'params' must be a list`);
  if (value.length === 0) return null;
  if (statements > 1) throw new FieldProblem(`field 'params' needs a single statement, not ${statements}`);
  return value;
}

async function runAll(
  session: Session,
  statements: readonly string[],
  params: readonly Json[] | null,
  asObjects: boolean,
  deadline: Deadline,
  limitMs: number,
): Promise<ToolOutcome> {
  const parts: JsonMap[] = [];
  let last: StatementResult | null = null;
  for (const [index, statement] of statements.entries()) {
    try {
      last = await session.run(statement, params);
    } catch (error) {
      const where = statements.length === 1 ? '' : ` (statement ${index + 1} of ${statements.length})`;
      return ended(deadline, limitMs) ?? explain(error, session.config, where, index);
    }
    parts.push(statementData(last, asObjects));
  }
  const final = parts.at(-1);
  if (last === null || final === undefined) throw new FieldProblem(`field 'command' has no statement`);
  const affected = last.described ? {} : { affected_rows: last.count };
  const commands = Object.fromEntries(parts.map((part, index) => [`command_${index}`, part]));
  const data = { ...final, ...affected, statement_count: statements.length, ...commands };
  return { ok: true, data };
}

function statementData(result: StatementResult, asObjects: boolean): JsonMap {
  const { columns } = result;
  const toMap = (row: readonly Json[]) => Object.fromEntries(columns.map((column, at) => [column, row[at] ?? null]));
  return {
    status: 'success',
    rows: asObjects ? result.rows.map(toMap) : result.rows,
    columns,
    row_count: result.described ? result.rows.length : result.count,
  };
}

/** Waits for a connection no longer than the try lasts; one that comes later goes straight back. */
async function takeInTime(pools: Pools, config: ConnectionConfig, signal: AbortSignal): Promise<PoolClient> {
  signal.throwIfAborted();
  const pending = pools.take(config);
  const stop = Promise.withResolvers<never>();
  const abort = () => stop.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([pending, stop.promise]);
  } catch (error) {
    pending.then(
      (client) => client.release(),
      () => {},
    );
    throw error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function ended(deadline: Deadline, limitMs: number): ToolFailure | null {
  const why = deadline.why();
  if (why === 'cancelled') return failure('unknown', 'CANCELLED', 'the statement was stopped');
  if (why === null) return null;
  return databaseFailure('57014', `the statement timed out after ${spellSeconds(limitMs)}`);
}

function databaseFailure(sqlstate: string, message: string, extra: FailureExtra = {}): ToolFailure {
  return failure(classifySqlstate(sqlstate), sqlstate, message, { pg: { code: sqlstate, sqlstate }, ...extra });
}

/** What the database itself said, with its SQLSTATE; everything else went wrong on the way to it. */
function explain(error: unknown, config: ConnectionConfig, where: string, index?: number): ToolFailure {
  if (error instanceof FieldProblem) throw error;
  if (error instanceof ResultTooLarge) return failure('logic', 'RESULT_TOO_LARGE', error.message);
  if (!(error instanceof Error) || !('severity' in error) || !('code' in error) || typeof error.code !== 'string')
    return explainConnection(error, config);
  // What it says of rows and values (detail, hint, where) stays here (api 8.2).
  const said = (name: 'position' | 'constraint' | 'table' | 'column') =>
    name in error && typeof Reflect.get(error, name) === 'string' ? { [name]: String(Reflect.get(error, name)) } : {};
  const details = {
    ...(index === undefined ? {} : { statement: index }),
    ...said('position'),
    ...said('constraint'),
    ...said('table'),
    ...said('column'),
  };
  // The driver refuses to feed a COPY; the server tells that as a cancelled query, which would look like a timeout.
  if (error.message.startsWith('COPY from stdin failed'))
    return failure('config', error.code, `COPY from stdin is not supported${where}`, {
      pg: { code: error.code, sqlstate: error.code },
    });
  return databaseFailure(error.code, withoutPassword(error.message, config) + where, { details });
}

/** The failure of a connection or statement made elsewhere. */
export function explainDatabase(error: unknown, config: ConnectionConfig): ToolFailure {
  return explain(error, config, '');
}

function explainConnection(error: unknown, config: ConnectionConfig): ToolFailure {
  if (error instanceof Error && 'severity' in error) return explain(error, config, '');
  const where = `the database at ${config.host}:${config.port}`;
  if (error instanceof Error && /timeout/i.test(error.message))
    return failure('db_timeout', 'CONN_TIMEOUT', `${where} gave no connection in time`, noSqlstate);
  const { code, reason } = classifyNetwork(error);
  return failure('db_connection', code, `${where}: ${withoutPassword(reason, config)}`, noSqlstate);
}

const noSqlstate = { pg: { code: null, sqlstate: null } };

function withoutPassword(message: string, { password }: ConnectionConfig): string {
  return password === '' ? message : message.replaceAll(password, '***');
}
