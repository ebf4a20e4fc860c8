/**
 * The PostgreSQL that comes with the package, for those who have none: started on first use, shared by the processes
 * that use the same data directory, stopped by the last of them. Each user keeps one session that holds a shared
 * advisory lock; the one that can turn it into an exclusive lock is the last. A user that was killed loses its session,
 * so the count cannot go wrong, and a server that outlived its starter is simply used again.
 *
 * When the server dies it is started again; sessions break meanwhile and the pools connect anew.
 */

import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { Log } from '../../actors/ports.ts';
import { type Cluster, type ClusterOptions, closeCluster, openCluster } from './cluster.ts';

export interface EmbeddedPostgres {
  readonly url: string;
  /** For `LISTEN`; the same server. */
  readonly listenUrl: string;
  /** Leaves the server; the last user stops it (fast shutdown). Can be called twice. */
  stop(): Promise<void>;
}

/** Key of the advisory lock in the server's own database `postgres`: "callboar" in ASCII. */
const USERS_LOCK = '7161113073486127474';
const RESTART_DELAYS_MS = [0, 200, 1_000, 5_000, 15_000];

/** Throws with a sentence that names the remedy: not writable, another major version, no build for the platform. */
export async function startEmbedded(
  dataDir: string,
  log: Log,
  options: ClusterOptions = {},
): Promise<EmbeddedPostgres> {
  let stopping = false;
  let restarting: Promise<void> = Promise.resolve();
  let url = '';
  let user = await join();

  async function join(): Promise<pg.Client> {
    for (let attempt = 1; ; attempt += 1) {
      const cluster = await openCluster(dataDir, log, options);
      try {
        const client = await enlist(cluster);
        log.info(cluster.adopted ? 'The embedded database was running already' : 'The embedded database has started', {
          pid: cluster.pid,
        });
        url = cluster.url;
        client.once('end', () => {
          if (!stopping) restarting = restart();
        });
        return client;
      } catch (cause) {
        // Its last user may have been stopping it just then.
        if (attempt === 3) throw new Error('The embedded database cannot be reached', { cause });
        await delay(200);
      }
    }
  }

  async function restart(): Promise<void> {
    log.error('The embedded database has ended unexpectedly; starting it again');
    for (const pause of RESTART_DELAYS_MS) {
      await delay(pause);
      if (stopping) return;
      try {
        user = await join();
        return;
      } catch (error) {
        log.error('The embedded database cannot be started', { error });
      }
    }
  }

  return {
    url,
    listenUrl: url,
    async stop() {
      if (stopping) return;
      stopping = true;
      await restarting;
      const last = await isLast(user);
      if (last) await closeCluster(dataDir);
      await user.end().catch(() => {});
      log.info(last ? 'The embedded database has stopped' : 'The embedded database is left to its other users');
    },
  };
}

async function enlist(cluster: Cluster): Promise<pg.Client> {
  const address = new URL(cluster.url.replace('@/', '@socket/'));
  address.pathname = '/postgres';
  const client = new pg.Client({
    connectionString: address.href.replace('@socket/', '@/'),
    application_name: 'callboard:embedded',
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
  });
  client.on('error', () => {});
  await client.connect();
  await client.query('select pg_advisory_lock_shared($1)', [USERS_LOCK]);
  return client;
}

async function isLast(client: pg.Client): Promise<boolean> {
  try {
    const answer = await client.query<{ last: boolean }>('select pg_try_advisory_lock($1) as last', [USERS_LOCK]);
    return answer.rows[0]?.last ?? false;
  } catch {
    return false;
  }
}
