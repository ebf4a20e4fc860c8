/**
 * A PostgreSQL connection that belongs to one try for as long as it lasts: cursors and transactions of a transfer. When
 * the try's signal fires the connection is cut, and whatever was not committed never happened.
 */
import { Client, type QueryArrayResult } from 'pg';
import type { Json } from '../../../machines/json.ts';
import type { ConnectionConfig } from './connection.ts';
import { readValue } from './values.ts';

export interface DedicatedRows {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Json[])[];
  readonly count: number;
}

export interface Dedicated extends AsyncDisposable {
  /** Runs one statement; values come as JSON. Rejects with the error of pg, or the reason of the signal. */
  query(text: string, params?: readonly unknown[]): Promise<DedicatedRows>;
}

const noArrays: ReadonlySet<number> = new Set();
const identity = { getTypeParser: () => (text: string) => text };
const connectMs = 30_000;

/** Rejects with the error of pg when no connection can be had. */
export async function openDedicated(
  config: ConnectionConfig,
  limitMs: number,
  signal: AbortSignal,
): Promise<Dedicated> {
  signal.throwIfAborted();
  const client = new Client({
    ...config,
    connectionTimeoutMillis: Math.min(connectMs, limitMs),
    application_name: 'callboard-task',
    // The last resort against a worker that is gone.
    statement_timeout: Math.min(Math.ceil(limitMs) + 5_000, 2 ** 31 - 1),
  });
  client.on('error', () => {});
  const cut = () => {
    // pg's types do not show the connection of a client; its stream is what a signal may end.
    const { connection } = client as unknown as { connection: { stream: { destroy(): void } } };
    connection.stream.destroy();
  };
  signal.addEventListener('abort', cut, { once: true });
  const end = async () => {
    signal.removeEventListener('abort', cut);
    if (!signal.aborted) await client.end().catch(() => {});
  };
  try {
    await client.connect();
    await client.query(`set datestyle = 'ISO'; set bytea_output = 'hex'; set extra_float_digits = 1`);
  } catch (error) {
    await end();
    signal.throwIfAborted();
    throw error;
  }
  return {
    async query(text, params = []) {
      signal.throwIfAborted();
      try {
        const raw = await client.query<(string | null)[]>({
          text,
          rowMode: 'array',
          types: identity,
          ...(params.length > 0 && { values: [...params] }),
        });
        return decode(raw);
      } catch (error) {
        signal.throwIfAborted();
        throw error;
      }
    },
    [Symbol.asyncDispose]: end,
  };
}

function decode(raw: QueryArrayResult<(string | null)[]>): DedicatedRows {
  const ids = raw.fields.map((field) => field.dataTypeID);
  return {
    columns: raw.fields.map((field) => field.name),
    rows: raw.rows.map((row) => row.map((value, at) => readValue(value, ids[at] ?? 0, noArrays))),
    count: raw.rowCount ?? 0,
  };
}
