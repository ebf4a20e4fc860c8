/**
 * The connections of a process, by purpose. `reads` is an ordinary bounded pool for everything that is not the engine's
 * hot path; `commits` and `lookups` are pipelined connections of their own, so that a slow report never stands in front
 * of a commit. Nothing connects before its first use, and everything connects anew after the database was away.
 */
import pg from 'pg';
import { type Log, type Meter, UnavailableError } from '../../actors/ports.ts';
import { REHEARSAL } from './commit.ts';
import { despiteConflicts } from './conflict.ts';
import { countFailure, refined } from './failure.ts';
import { createPipeline, type Pipeline } from './pipeline.ts';
import { sessionConfig } from './session.ts';

export interface DatabaseConfig {
  readonly url: string;
  readonly listenUrl: string;
  readonly poolMin: number;
  readonly poolMax: number;
  readonly acquireTimeoutSeconds: number;
  /** Waiting callers beyond this are refused with `pool_saturated`. */
  readonly waitingMax: number;
}

/** Something SQL can be said to: the pool (each statement on its own) or a transaction. */
export interface Sql {
  /** Rows of one statement. Throws UnavailableError, or what the database refused (pg.DatabaseError). */
  rows<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Number of rows one statement touched. */
  run(text: string, values?: readonly unknown[]): Promise<number>;
}

export interface ReadPool extends Sql {
  /** Runs `work` between begin and commit; a throw rolls back, and a lost conflict runs it again. `work` must use `tx` only, never the pool: a second checkout inside a transaction can deadlock the pool. */
  transaction<T>(work: (tx: Sql) => Promise<T>): Promise<T>;
  status(): PoolStatus;
}

export interface PoolStatus {
  readonly min: number;
  readonly max: number;
  readonly size: number;
  readonly available: number;
  readonly waiting: number;
}

export interface Database {
  readonly config: DatabaseConfig;
  readonly reads: ReadPool;
  readonly hot: {
    /** Two, so that the next flush can be on its way while one is being written. */
    readonly commits: readonly Pipeline[];
    readonly lookups: Pipeline;
  };
  close(): Promise<void>;
}

const COMMIT_CONNECTIONS = 2;
const IDLE_MS = 60_000;
const ANSWER_WITHIN_MS = 40_000;

export function createDatabase(config: DatabaseConfig, log: Log, meter?: Meter): Database {
  const pool = createReadPool(config, log, meter);
  const commits = Array.from({ length: COMMIT_CONNECTIONS }, () =>
    createPipeline(config.url, 'commit', log, REHEARSAL, meter),
  );
  const lookups = createPipeline(config.url, 'lookup', log, [], meter);
  return {
    config,
    reads: pool,
    hot: { commits, lookups },
    async close() {
      await Promise.all([pool.close(), lookups.close(), ...commits.map((pipeline) => pipeline.close())]);
    },
  };
}

function createReadPool(config: DatabaseConfig, log: Log, meter?: Meter): ReadPool & { close(): Promise<void> } {
  const pool = new pg.Pool({
    ...sessionConfig(config.url, 'reads'),
    min: config.poolMin,
    max: config.poolMax,
    connectionTimeoutMillis: config.acquireTimeoutSeconds * 1000,
    idleTimeoutMillis: IDLE_MS,
    query_timeout: ANSWER_WITHIN_MS,
  });
  // An idle connection that breaks is reported by the pool, a checked-out one by itself; unheard, either ends the process.
  pool.on('error', (error) => log.warn('A database connection broke', { part: 'reads', error }));
  pool.on('connect', (client) => {
    client.on('error', (error) => log.debug('A database connection broke in use', { part: 'reads', error }));
  });

  let closing: Promise<void> | null = null;

  async function acquire(): Promise<pg.PoolClient> {
    if (closing !== null) throw new UnavailableError();
    if (pool.waitingCount >= config.waitingMax) throw new UnavailableError('pool_saturated');
    const asked = performance.now();
    try {
      const client = await pool.connect();
      meter?.observe('svc_db_checkout_seconds', (performance.now() - asked) / 1000);
      return client;
    } catch (error) {
      countFailure(meter, error);
      const starved = error instanceof Error && error.message.startsWith('timeout exceeded when trying to connect');
      if (starved && pool.totalCount >= config.poolMax && pool.idleCount === 0) {
        throw new UnavailableError('pool_saturated', { cause: error });
      }
      throw refined(error);
    }
  }

  async function withClient<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await acquire();
    try {
      const value = await work(client);
      client.release();
      return value;
    } catch (error) {
      countFailure(meter, error);
      const better = refined(error);
      client.release(better instanceof UnavailableError);
      throw better;
    }
  }

  /** The connection goes back to the pool between two tries. */
  const transacted = <T>(work: (client: pg.PoolClient) => Promise<T>) => despiteConflicts(() => withClient(work));

  return {
    rows: (text, values) => despiteConflicts(() => withClient((client) => sqlOn(client).rows(text, values))),
    run: (text, values) => despiteConflicts(() => withClient((client) => sqlOn(client).run(text, values))),
    transaction: (work) =>
      transacted(async (client) => {
        await client.query('begin');
        try {
          const value = await work(sqlOn(client));
          // A failure that `work` kept to itself has aborted the transaction; the server then answers with ROLLBACK.
          if ((await client.query('commit')).command !== 'COMMIT') throw new Error('the transaction was aborted');
          return value;
        } catch (error) {
          await client.query('rollback').catch(() => {});
          throw error;
        }
      }),
    status: () => ({
      min: config.poolMin,
      max: config.poolMax,
      size: pool.totalCount,
      available: pool.idleCount,
      waiting: pool.waitingCount,
    }),
    close() {
      closing ??= pool.end();
      return closing;
    },
  };
}

function sqlOn(client: pg.PoolClient): Sql {
  return {
    async rows<Row extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []) {
      return (await client.query<Row>(text, [...values])).rows;
    },
    async run(text, values = []) {
      return (await client.query(text, [...values])).rowCount ?? 0;
    },
  };
}
