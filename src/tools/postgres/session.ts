/**
 * One connection for one try: prepares its settings, runs statements, and when the try's signal fires cancels the
 * running one on the server through a second connection, or cuts the connection when that does not help.
 */
import type { EventEmitter } from 'node:events';
import { Client, type PoolClient, type QueryArrayResult } from 'pg';
import type { Json } from '../../../machines/json.ts';
import { FieldProblem } from '../fields.ts';
import type { ConnectionConfig } from './connection.ts';
import { firstUserTypeId, readValue } from './values.ts';

export interface StatementResult {
  /** Whether the statement returned a row description, even for no rows. */
  readonly described: boolean;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Json[])[];
  /** Rows the statement changed or returned, as its command tag says. */
  readonly count: number;
}

export interface SessionSettings {
  readonly config: ConnectionConfig;
  /** A quoted search path or null. */
  readonly path: string | null;
  readonly limitMs: number;
  readonly maxResultBytes: number;
}

export interface Session {
  readonly config: ConnectionConfig;
  run(statement: string, params: readonly Json[] | null): Promise<StatementResult>;
  /** True when the connection must not be used again. */
  broken(): boolean;
}

/** The rows of a try are larger than the configured limit. */
export class ResultTooLarge extends Error {
  override readonly name = 'ResultTooLarge';
}

const cancelMs = 2_000;
const identity = { getTypeParser: () => (text: string) => text };

/** `statement_timeout` is the last resort against a worker that is gone; the signal is the try's own clock. */
export async function openSession(
  client: PoolClient,
  settings: SessionSettings,
  signal: AbortSignal,
): Promise<Session> {
  const { config, path, limitMs, maxResultBytes } = settings;
  const prepared = await client.query<{ pid: number }>(
    `select
       pg_backend_pid() as pid,
       set_config('statement_timeout', $1, false),
       set_config('search_path', coalesce($2, current_setting('search_path')), false),
       set_config('datestyle', 'ISO, ' || split_part(current_setting('datestyle'), ', ', 2), false),
       set_config('bytea_output', 'hex', false)`,
    [String(Math.min(Math.ceil(limitMs) + 5_000, 2 ** 31 - 1)), path],
  );
  const pid = prepared.rows[0]?.pid ?? 0;
  const arrays = new Set<number>();
  const scalars = new Set<number>();
  let broken = false;
  let received = 0;

  const learnTypes = async (typeIds: readonly number[]) => {
    const unknown = typeIds.filter((id) => id >= firstUserTypeId && !arrays.has(id) && !scalars.has(id));
    // In a failed transaction nothing can be asked; there are no rows then either.
    if (unknown.length === 0) return;
    const found = await client.query<{ oid: string }>(
      `select oid::text as oid from pg_type where oid = any($1::oid[]) and typcategory = 'A'`,
      [unknown],
    );
    for (const id of unknown) scalars.add(id);
    for (const { oid } of found.rows) arrays.add(Number(oid));
  };

  const decode = async (raw: QueryArrayResult<(string | null)[]>): Promise<StatementResult> => {
    const typeIds = raw.fields.map((field) => field.dataTypeID);
    await learnTypes(typeIds);
    return {
      described: raw.fields.length > 0,
      columns: raw.fields.map((field) => field.name),
      rows: raw.rows.map((row) => row.map((value, at) => readValue(value, typeIds[at] ?? 0, arrays))),
      count: raw.rowCount ?? 0,
    };
  };

  return {
    config,
    broken: () => broken,
    async run(statement, params) {
      signal.throwIfAborted();
      let tooLarge = false;
      let timer: NodeJS.Timeout | undefined;
      let settled = false;
      const cut = () => {
        broken = true;
        if (!settled) cutConnection(client);
      };
      const stop = () => {
        timer = setTimeout(cut, cancelMs);
        cancel(config, pid).catch(cut);
      };
      const count = (row: { length?: number }) => {
        received += row.length ?? 0;
        if (received <= maxResultBytes || tooLarge) return;
        tooLarge = true;
        broken = true;
        cutConnection(client);
      };
      const messages = messagesOf(client);
      messages.on('dataRow', count);
      signal.addEventListener('abort', stop, { once: true });
      try {
        const raw = await client.query<(string | null)[]>({
          text: statement,
          rowMode: 'array',
          types: identity,
          ...(params && { values: params.map(parameter) }),
        });
        // The splitter and the server may disagree on what one statement is; then there are several results.
        const results: QueryArrayResult<(string | null)[]>[] = Array.isArray(raw) ? raw : [raw];
        const last = results.at(-1);
        if (last === undefined) throw new FieldProblem('the statement has no result');
        return await decode(last);
      } catch (error) {
        if (tooLarge) throw new ResultTooLarge(`the rows have more than ${maxResultBytes} bytes`);
        if (signal.aborted) broken = true;
        throw error;
      } finally {
        settled = true;
        clearTimeout(timer);
        signal.removeEventListener('abort', stop);
        messages.off('dataRow', count);
      }
    },
  };
}

/** Lists of scalars are arrays, lists of lists too; whatever holds a map is JSON. */
function parameter(value: Json): unknown {
  if (!Array.isArray(value)) return value;
  return holdsMap(value) ? JSON.stringify(value) : value;
}

function holdsMap(value: Json): boolean {
  if (Array.isArray(value)) return value.some(holdsMap);
  return typeof value === 'object' && value !== null;
}

async function cancel(config: ConnectionConfig, pid: number): Promise<void> {
  const helper = new Client({ ...config, connectionTimeoutMillis: cancelMs, query_timeout: cancelMs });
  helper.on('error', () => {});
  try {
    await helper.connect();
    await helper.query('select pg_cancel_backend($1)', [pid]);
  } finally {
    await helper.end().catch(() => {});
  }
}

/** pg's client keeps its connection, an emitter of protocol messages, in a member its types do not show. */
function messagesOf(client: PoolClient): EventEmitter {
  return (client as unknown as { connection: EventEmitter }).connection;
}

function cutConnection(client: PoolClient): void {
  const { stream } = messagesOf(client) as unknown as { stream: { destroy(): void } };
  stream.destroy();
}
