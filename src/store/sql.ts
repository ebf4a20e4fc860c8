/**
 * Runs the statements of the SQL endpoint, each on a connection of its own: whatever a statement leaves behind in its
 * session ends with it. Two clocks watch it, the server's and ours; ours destroys the connection, so that no setting a
 * statement may change and no silent network can keep it.
 */
import pg from 'pg';
import { UnavailableError } from '../../actors/ports.ts';
import type { SqlConnection, SqlOutcome, SqlRunner, SqlStatement, SqlTarget } from '../../actors/sql-service.ts';
import type { JsonMap } from '../../machines/json.ts';
import { describeFailure } from './sql-error.ts';
import { CopyRefused, type PortalResult, runPortal } from './sql-portal.ts';
import { mayBeArray, readValue, writeParameter } from './sql-values.ts';

export interface SqlRunnerOptions {
  /** Login of the service's own database: the query login, or the service's in `write` mode. Null: there is none. */
  readonly ownUrl: string | null;
  /** `begin read only` around statements of the own database. */
  readonly readOnly: boolean;
}

const RUNNING_MAX = 2;
const WAITING_MAX = 32;
const RESULT_BYTES_MAX = 16 * 1024 * 1024;
/** Bytes that may arrive at all: a row is only counted when it is there as a whole. */
const RECEIVED_BYTES_MAX = 64 * 1024 * 1024;
const CONNECT_WITHIN_MS = 10_000;
/** The server's clock should ring first, because it can say why. */
const CLIENT_GRACE_MS = 500;
const GOODBYE_MS = 1_000;

type Failed = Extract<SqlOutcome, { ok: false }>;

const TOO_LATE: Failed = { ok: false, message: 'canceling statement due to statement timeout', sqlstate: '57014' };
const TOO_LARGE: Failed = { ok: false, message: 'The result is larger than the SQL endpoint takes', sqlstate: '54000' };
const NO_COPY: Failed = { ok: false, message: 'copy to stdout is not possible here', sqlstate: '0A000' };
const LOST: Failed = { ok: false, message: 'The connection to the database was lost', sqlstate: '08006' };

export function createSqlRunner(options: SqlRunnerOptions): SqlRunner {
  // A slow foreign database must not keep the own one waiting, so each kind has its own slots.
  const slots = { own: createSlots(), credential: createSlots() };
  return {
    run: (target, statement) =>
      slots[target.kind].use(() =>
        runOn(configOf(target, options), statement, target.kind === 'own' && options.readOnly),
      ),
  };
}

async function runOn(config: pg.ClientConfig, statement: SqlStatement, readOnly: boolean): Promise<SqlOutcome> {
  const client = new pg.Client({
    ...config,
    application_name: 'callboard:sql',
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_WITHIN_MS,
  });
  // A broken connection is reported here and by the query; the query's report is the one that counts.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    destroy(client);
    const sqlstate = error instanceof pg.DatabaseError ? (error.code ?? '08006') : '08001';
    return { ok: false, message: 'The database of the statement cannot be reached', sqlstate };
  }
  const watch = watchOver(client, statement.timeoutSeconds * 1000 + CLIENT_GRACE_MS);
  try {
    const missing = await prepare(client, statement);
    if (missing !== null) return missing;
    if (readOnly) await client.query('begin read only');
    const limits = { rows: statement.maxRows, bytes: RESULT_BYTES_MAX };
    const result = await runPortal(client, statement.query, statement.parameters.map(writeParameter), limits);
    const outcome = { ok: true, ...(await decode(client, result)) } as const;
    if (readOnly) await client.query('commit');
    return outcome;
  } catch (error) {
    return watch.broken() ?? failureOf(error);
  } finally {
    watch.stop();
    destroy(client);
  }
}

function configOf(target: SqlTarget, options: SqlRunnerOptions): pg.ClientConfig {
  if (target.kind === 'credential') {
    const { sslMode, ...connection } = target.connection;
    return { ...connection, ssl: sslOf(sslMode) };
  }
  if (options.ownUrl === null) throw new Error('a statement for the own database came without a login for it');
  return { connectionString: options.ownUrl };
}

/** libpq's modes: `require` encrypts and looks at no certificate, the `verify` modes look. */
function sslOf(mode: SqlConnection['sslMode']): boolean | { rejectUnauthorized: boolean } {
  switch (mode?.toLowerCase()) {
    case 'require':
    case 'no-verify':
      return { rejectUnauthorized: false };
    case 'verify-ca':
    case 'verify-full':
    case 'true':
      return true;
    default:
      return false;
  }
}

/** Settings of the session; null when all went well. */
async function prepare(client: pg.Client, { schema, timeoutSeconds }: SqlStatement): Promise<Failed | null> {
  const answer = await client.query<{ found: boolean }>(
    `select
       set_config('statement_timeout', $1, false),
       set_config('lock_timeout', $1, false),
       set_config('idle_in_transaction_session_timeout', $1, false),
       set_config('TimeZone', 'UTC', false),
       set_config('DateStyle', 'ISO, YMD', false),
       set_config('IntervalStyle', 'postgres', false),
       set_config('bytea_output', 'hex', false),
       set_config('search_path', coalesce(quote_ident($2), current_setting('search_path')), false),
       $2::text is null or exists (select from pg_catalog.pg_namespace where nspname = $2) as found`,
    [String(timeoutSeconds * 1000), schema],
  );
  if (answer.rows[0]?.found === true) return null;
  return { ok: false, message: `schema "${schema}" does not exist`, sqlstate: '3F000' };
}

async function decode(client: pg.Client, result: PortalResult) {
  const types = result.fields.map((field) => field.dataTypeID);
  const arrays = await arraysAmong(client, types.filter(mayBeArray));
  const columns = result.fields.map((field) => field.name);
  const rows: JsonMap[] = result.rows.map((row) =>
    Object.fromEntries(row.map((value, at) => [columns[at] ?? '', readValue(value, types[at] ?? 0, arrays)])),
  );
  const rowCount = result.fields.length > 0 ? rows.length : (result.count ?? 0);
  return { rows, rowCount, columns, truncated: result.truncated };
}

async function arraysAmong(client: pg.Client, types: readonly number[]): Promise<ReadonlySet<number>> {
  if (types.length === 0) return new Set();
  const answer = await client.query<{ oid: string }>(
    `select oid::text as oid from pg_catalog.pg_type where oid = any ($1::oid[]) and typcategory = 'A'`,
    [types],
  );
  return new Set(answer.rows.map((row) => Number(row.oid)));
}

interface Watch {
  /** Why the connection was destroyed, if it was. */
  broken(): Failed | null;
  stop(): void;
}

function watchOver(client: pg.Client, limitMs: number): Watch {
  const stream = streamOf(client);
  let broken: Failed | null = null;
  let received = 0;
  const cut = (why: Failed) => {
    broken ??= why;
    stream.destroy();
  };
  const count = (chunk: Buffer) => {
    received += chunk.length;
    if (received > RECEIVED_BYTES_MAX) cut(TOO_LARGE);
  };
  const timer = setTimeout(() => cut(TOO_LATE), limitMs);
  stream.on('data', count);
  return {
    broken: () => broken,
    stop() {
      clearTimeout(timer);
      stream.off('data', count);
    },
  };
}

interface Stream {
  on(event: 'data', listener: (chunk: Buffer) => void): void;
  off(event: 'data', listener: (chunk: Buffer) => void): void;
  destroy(): void;
}

function streamOf(client: pg.Client): Stream {
  // pg's client keeps its connection, and that its socket, in members its types do not show (lib/client.js).
  return (client as unknown as { readonly connection: { readonly stream: Stream } }).connection.stream;
}

/** Says goodbye, and does not wait for a server that may never answer. */
function destroy(client: pg.Client): void {
  client.end().catch(() => {});
  setTimeout(() => streamOf(client).destroy(), GOODBYE_MS).unref();
}

function failureOf(error: unknown): Failed {
  if (error instanceof CopyRefused) return NO_COPY;
  if (error instanceof pg.DatabaseError) return { ok: false, ...describeFailure(error) };
  return LOST;
}

interface Slots {
  use<T>(work: () => Promise<T>): Promise<T>;
}

/** A few at once, some waiting, the rest refused. */
function createSlots(): Slots {
  let running = 0;
  const waiting: (() => void)[] = [];
  return {
    async use(work) {
      if (running === RUNNING_MAX) {
        if (waiting.length === WAITING_MAX) throw new UnavailableError('pool_saturated');
        // The slot is handed over, not given back, so nobody can slip in between.
        await new Promise<void>((resolve) => waiting.push(resolve));
      } else running += 1;
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next === undefined) running -= 1;
        else next();
      }
    },
  };
}
