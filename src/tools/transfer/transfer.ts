/**
 * Kind `transfer` (language 11.13): rows stream from one place to another in chunks, inside one transaction of the
 * target. Each side has a credential of its own.
 */
import type { Json, JsonMap } from '../../../machines/json.ts';
import { unusableCredential } from '../credentials.ts';
import { type Deadline, spellSeconds, startDeadline } from '../deadline.ts';
import { readDatabase } from '../duckdb/duckdb.ts';
import { explainDuckdb } from '../duckdb/failure.ts';
import type { DuckdbSettings } from '../duckdb/process.ts';
import { failure, ToolRefusal } from '../errors.ts';
import { FieldProblem, fieldOf, mapOf, requiredText, textOf } from '../fields.ts';
import { explainExchange } from '../http/http.ts';
import { readMessage } from '../http/message.ts';
import { readConnection } from '../postgres/connection.ts';
import { explainDatabase } from '../postgres/postgres.ts';
import type { ResolvedAuth, Tool, ToolCall, ToolFailure } from '../tool.ts';
import { duckdbSource, duckdbTarget } from './duckdb-side.ts';
import { type HttpSide, httpSource } from './http-side.ts';
import { postgresSource, postgresTarget, type WriteSettings } from './postgres-side.ts';
import { columnsOf, type Mode, pick, type RowSource, type RowTarget, readMapping } from './rows.ts';

export interface TransferOptions extends HttpSide {
  readonly timeoutMs: number;
  readonly duckdb: Omit<DuckdbSettings, 'database'>;
}

const sources = new Set(['postgres', 'duckdb', 'http']);
const targets = new Set(['postgres', 'duckdb']);
const maxChunk = 10_000;

/** One end of the transfer, with its credential. */
interface Side {
  readonly type: string;
  readonly fields: JsonMap;
  readonly auth: ResolvedAuth | null;
}

/** A transfer tool; closing it is the owner of `outbound`'s business. */
export function createTransfer(options: TransferOptions): Tool {
  return {
    kind: 'transfer',
    async run(call) {
      const limitMs = call.timeoutMs ?? options.timeoutMs;
      using deadline = startDeadline(limitMs, call.signal);
      const settings = await readSettings(call);
      const { source, target, mode } = settings;
      try {
        await using from = await at(source, openSource(source, call, options, limitMs, deadline.signal));
        await using to = await at(target, openTarget(target, settings.write, options, limitMs, deadline.signal));
        const rows_transferred = await pump(from, to, settings, deadline.signal);
        const direction = `${source.type}_to_${target.type}`;
        const ends = { direction, source_type: source.type, target_type: target.type };
        return { ok: true, data: { status: 'success', ...ends, mode, rows_transferred } };
      } catch (error) {
        return explain(error, deadline, limitMs);
      }
    },
  };
}

interface Settings {
  readonly source: Side;
  readonly target: Side;
  readonly mode: Mode;
  readonly chunkSize: number;
  readonly write: WriteSettings;
}

async function readSettings(call: ToolCall): Promise<Settings> {
  const { fields, host } = call;
  const source = await readSide(fields, 'source', sources, host.credential);
  const target = await readSide(fields, 'target', targets, host.credential);
  const mode = modeOf(textOf(fields, 'mode') ?? textOf(target.fields, 'mode') ?? 'append');
  const key = keyOf(fieldOf(fields, 'key') ?? fieldOf(target.fields, 'key'));
  const query = textOf(target.fields, 'query')?.trim() || null;
  if (mode === 'upsert' && query === null && key.length === 0) throw new FieldProblem(`mode upsert needs field 'key'`);
  const table = query === null ? requiredText(target.fields, 'table') : '';
  return { source, target, mode, chunkSize: chunkOf(fields), write: { table, query, mode, key } };
}

async function readSide(
  fields: JsonMap,
  name: 'source' | 'target',
  known: ReadonlySet<string>,
  credential: (auth: Json) => Promise<ResolvedAuth | null>,
): Promise<Side> {
  const side = mapOf(fields, name);
  if (side === undefined) throw new FieldProblem(`field '${name}' is missing`);
  const type = requiredText(side, 'type').trim().toLowerCase();
  if (!known.has(type)) throw new FieldProblem(`field '${name}.type' must be one of ${[...known].join(', ')}`);
  const auth = fieldOf(side, 'auth', 'credential');
  return { type, fields: side, auth: auth === undefined || auth === '' ? null : await credential(auth) };
}

function openSource(
  { type, fields, auth }: Side,
  call: ToolCall,
  options: TransferOptions,
  limitMs: number,
  signal: AbortSignal,
): Promise<RowSource> {
  if (type === 'http') return httpSource(options, fields, { ...call, auth }, signal);
  const query = requiredText(fields, 'query');
  if (type === 'postgres') return postgresSource(readConnection(fields, auth), query, limitMs, signal);
  return duckdbSource({ ...options.duckdb, database: databaseOf(fields, auth) }, query, signal);
}

function openTarget(
  { type, fields, auth }: Side,
  write: WriteSettings,
  options: TransferOptions,
  limitMs: number,
  signal: AbortSignal,
): Promise<RowTarget> {
  if (type === 'postgres') return postgresTarget(readConnection(fields, auth), write, limitMs, signal);
  const database = databaseOf(fields, auth);
  if (database === ':memory:')
    throw new FieldProblem(`field 'target.database' is missing: a database in memory is gone at once`);
  return duckdbTarget({ ...options.duckdb, database }, write, signal);
}

function databaseOf(fields: JsonMap, auth: ResolvedAuth | null): string {
  if (auth !== null && !/^(?:custom|generic|basic|none)$/i.test(auth.type)) throw unusableCredential(auth, 'duckdb');
  return readDatabase(fields, auth);
}

/** The rows that were written. Nothing of them stays unless all of them do. */
async function pump(from: RowSource, to: RowTarget, settings: Settings, signal: AbortSignal): Promise<number> {
  const mapping = readMapping(settings.target.fields['mapping']);
  const { key, mode, query } = settings.write;
  let total = 0;
  for (;;) {
    signal.throwIfAborted();
    const rows = await at(settings.source, from.next(settings.chunkSize));
    if (rows.length === 0) break;
    const columns = columnsOf(rows, mapping);
    if (columns.length === 0) throw new FieldProblem('the rows of the source have no columns');
    const missing = mode === 'upsert' && query === null ? key.find((column) => !columns.includes(column)) : undefined;
    if (missing !== undefined) throw new FieldProblem(`the key '${missing}' is none of the columns that are written`);
    const values = rows.map((row) => pick(row, columns, mapping));
    await at(settings.target, to.write(columns, values));
    total += rows.length;
  }
  await at(settings.target, to.commit());
  return total;
}

function modeOf(text: string): Mode {
  const mode = text.trim().toLowerCase();
  if (mode === 'append' || mode === 'replace' || mode === 'upsert') return mode;
  throw new FieldProblem(`field 'mode' must be append, replace or upsert, not '${mode.slice(0, 40)}'`);
}

function keyOf(value: Json | undefined): string[] {
  if (value === undefined) return [];
  const parts: readonly Json[] = Array.isArray(value) ? value : typeof value === 'string' ? value.split(',') : [value];
  return parts.map((part: Json) => {
    if (typeof part !== 'string' || part.trim() === '') throw new FieldProblem(`field 'key' must be names of columns`);
    return part.trim();
  });
}

function chunkOf(fields: JsonMap): number {
  const size = Number(fieldOf(fields, 'chunk_size') ?? 1000);
  if (!Number.isSafeInteger(size) || size < 1)
    throw new FieldProblem(`field 'chunk_size' must be a whole number from 1`);
  return Math.min(size, maxChunk);
}

/** What went wrong, and at which end. */
class SideProblem extends Error {
  override readonly name = 'SideProblem';
  readonly side: Side;
  constructor(side: Side, cause: unknown) {
    super('a side of the transfer failed', { cause });
    this.side = side;
  }
}

async function at<T>(side: Side, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw new SideProblem(side, error);
  }
}

function explain(error: unknown, deadline: Deadline, limitMs: number): ToolFailure {
  const cause = error instanceof SideProblem ? error.cause : error;
  if (cause instanceof FieldProblem || cause instanceof ToolRefusal) throw cause;
  if (deadline.why() === 'timeout')
    return failure('timeout', 'TOOL_TIMEOUT', `the transfer timed out after ${spellSeconds(limitMs)}`);
  if (deadline.why() === 'cancelled') return failure('unknown', 'CANCELLED', 'the transfer was stopped');
  if (!(error instanceof SideProblem)) throw error;
  const { type, fields, auth } = error.side;
  if (type === 'postgres') return explainDatabase(cause, readConnection(fields, auth));
  if (type === 'http') return explainExchange(cause, readMessage(fields), deadline, limitMs);
  const explained = explainDuckdb(cause, '');
  if (explained === null) throw cause;
  return explained;
}
