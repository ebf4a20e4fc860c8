/**
 * Connection pools by database, bounded in number. A connection is reset before it is used again, so that no try sees
 * the settings, temporary tables or open transaction of another.
 */
import { Pool, type PoolClient } from 'pg';
import { type ConnectionConfig, connectionKey } from './connection.ts';

export interface Pools {
  /** Rejects with the error of pg when no connection can be had. Give it back with `giveBack`. */
  take(config: ConnectionConfig): Promise<PoolClient>;
  /** Resets the connection and returns it; a broken one is closed. Never rejects. */
  giveBack(client: PoolClient, broken: boolean): Promise<void>;
  close(): Promise<void>;
}

const maxPools = 16;
const connectionsPerPool = 10;
const idleMs = 10_000;
// Waiting for a busy pool counts, too.
const connectMs = 30_000;
const resetMs = 5_000;
const closeMs = 2_000;

/** Nothing is connected before the first `take`. */
export function createPools(): Pools {
  const pools = new Map<string, Pool>();
  const ending = new Set<Promise<void>>();
  // A statement that ends in the middle of a reset must not be an uncaught error.
  const ignore = () => {};

  const end = (key: string, pool: Pool) => {
    pools.delete(key);
    const ended = pool.end().catch(ignore);
    ending.add(ended);
    void ended.then(() => ending.delete(ended));
  };

  const poolFor = (config: ConnectionConfig): Pool => {
    const key = connectionKey(config);
    const known = pools.get(key);
    if (known !== undefined) {
      pools.delete(key);
      pools.set(key, known);
      return known;
    }
    for (const [oldest, pool] of pools) if (pools.size >= maxPools && pool.totalCount === 0) end(oldest, pool);
    const [oldest] = pools;
    if (pools.size >= maxPools && oldest !== undefined) end(...oldest);
    const pool = new Pool({
      ...config,
      max: connectionsPerPool,
      idleTimeoutMillis: idleMs,
      connectionTimeoutMillis: connectMs,
      application_name: 'callboard-task',
      allowExitOnIdle: true,
    });
    pool.on('error', ignore);
    pool.on('connect', (client) => client.on('error', ignore));
    pools.set(key, pool);
    return pool;
  };

  return {
    take: (config) => poolFor(config).connect(),
    async giveBack(client, broken) {
      if (broken) return client.release(true);
      try {
        if (client.getTransactionStatus() !== 'I') await timed(client.query('rollback'), resetMs);
        await timed(client.query('discard all'), resetMs);
        client.release();
      } catch {
        client.release(true);
      }
    },
    async close() {
      for (const [key, pool] of pools) end(key, pool);
      // A connection that is still being opened would hold the end up for as long as its server is silent.
      await timed(Promise.all(ending), closeMs).catch(ignore);
    },
  };
}

async function timed<T>(work: Promise<T>, limitMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the database does not answer')), limitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
