/**
 * A PostgreSQL cluster in a data directory: prepared once, found running or started. Who uses it is not known here
 * (embedded-postgres.ts counts users). The layout is `pg/` for the cluster, `run/` for its socket and
 * `postgres.log`; when the account cannot reach the directory, `pg-location` names the place used instead.
 */
import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, chown, mkdir, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import type { Log } from '../../actors/ports.ts';
import { type Account, chooseAccount, reachable } from './account.ts';
import { findBinaries } from './binaries.ts';
import {
  type Address,
  answers,
  findPostmaster,
  launch,
  serverEnvironment,
  shutDown,
  socketPath,
} from './postmaster.ts';
import { underLock } from './start-lock.ts';

export interface ClusterOptions {
  /** Also listen on 127.0.0.1, with this password for the account of the service. */
  readonly tcp?: { readonly port: number; readonly password: string };
  /** Server settings laid over ours. */
  readonly settings?: Readonly<Record<string, string>>;
}

export interface Cluster {
  readonly url: string;
  readonly pid: number;
  /** True when it was already running: another process's, or an orphan of a killed one. */
  readonly adopted: boolean;
}

export const USER = 'callboard';
const LOCK_PATIENCE_MS = 150_000;
/** A socket path longer than this does not fit into the address structure of every system. */
const SOCKET_PATH_BYTES_MAX = 100;

const SETTINGS = {
  shared_buffers: '128MB',
  max_connections: '60',
  synchronous_commit: 'on',
  wal_buffers: '16MB',
  max_wal_size: '1GB',
  checkpoint_completion_target: '0.9',
  random_page_cost: '1.1',
  jit: 'off',
  huge_pages: 'off',
  max_parallel_workers_per_gather: '0',
  autovacuum_naptime: '20s',
  client_connection_check_interval: '10s',
  log_timezone: 'UTC',
  timezone: 'UTC',
  log_min_messages: 'warning',
};

/** Finds or starts the cluster of a data directory. Safe to call at once from several processes. */
export async function openCluster(dataDir: string, log: Log, options: ClusterOptions = {}): Promise<Cluster> {
  const home = await prepareHome(dataDir, log);
  return underLock(join(home.directory, 'starting.pid'), LOCK_PATIENCE_MS, async () => {
    const data = join(home.directory, 'pg');
    const running = existsSync(data) ? findPostmaster(data) : null;
    if (running !== null) {
      await answers(data, running.address);
      return { url: await prepareDatabase(running.address, options), pid: running.pid, adopted: true };
    }
    const binaries = await findBinaries(home.account);
    if (!existsSync(data)) await initialise(binaries.directory, data, home.account);
    await requireVersion(data, binaries.major);
    const address = { socketDirectory: await socketDirectory(home), port: options.tcp?.port ?? 5432 };
    const pid = await launch({
      programs: binaries.directory,
      data,
      address,
      account: home.account,
      logFile: join(home.directory, 'postgres.log'),
      settings: {
        ...SETTINGS,
        listen_addresses: options.tcp === undefined ? '' : '127.0.0.1',
        port: String(address.port),
        unix_socket_directories: address.socketDirectory,
        unix_socket_permissions: '0700',
        ...options.settings,
      },
    });
    return { url: await prepareDatabase(address, options), pid, adopted: false };
  });
}

/** Stops the cluster of a data directory, whoever started it; nothing happens when it does not run. */
export async function closeCluster(dataDir: string): Promise<void> {
  if (!existsSync(dataDir)) return;
  const data = join(await homeOf(dataDir), 'pg');
  const running = existsSync(data) ? findPostmaster(data) : null;
  if (running !== null) await shutDown(data, running.pid);
  await rm(temporarySocketDirectory(data), { recursive: true, force: true });
}

/** Where the cluster of a data directory really is. */
export async function homeOf(dataDir: string): Promise<string> {
  const pointer = await readFile(join(dataDir, 'pg-location'), 'utf8').catch(() => null);
  return pointer === null ? realpath(dataDir) : pointer.trim();
}

interface Home {
  readonly directory: string;
  readonly account: Account | null;
}

async function prepareHome(dataDir: string, log: Log): Promise<Home> {
  try {
    await mkdir(dataDir, { recursive: true });
    const probe = join(dataDir, `.writable-${randomUUID()}`);
    await writeFile(probe, '');
    await rm(probe);
  } catch (cause) {
    // What the system refuses has a code; anything else is a mistake of ours and must not be told as one of the user's.
    if (!(cause instanceof Error && 'code' in cause)) throw cause;
    throw new Error(`The data directory ${dataDir} cannot be written; set SVC_DATA_DIR or SVC_DATABASE_URL`, { cause });
  }
  const directory = await homeOf(dataDir);
  const existing = join(directory, 'pg');
  const account = chooseAccount(existsSync(existing) ? existing : null);
  if (account === null || existsSync(existing)) return { directory, account };
  // Passing through our own directory is granted; reading it is not, and the files in it keep their own rights.
  await chmod(directory, (await stat(directory)).mode | 0o111);
  const gate = join(directory, 'run');
  await mkdir(gate, { recursive: true, mode: 0o700 });
  await chown(gate, account.uid, account.gid);
  if (reachable(gate, account)) return { directory, account };
  const elsewhere = join('/var/lib/callboard', createHash('sha256').update(directory).digest('hex').slice(0, 16));
  await mkdir(elsewhere, { recursive: true, mode: 0o755 });
  await writeFile(join(dataDir, 'pg-location'), `${elsewhere}\n`);
  log.warn('The data directory is closed to the account of PostgreSQL; its files are kept elsewhere', {
    data_dir: dataDir,
    location: elsewhere,
  });
  return { directory: elsewhere, account };
}

/** Made beside its place and renamed: a cluster is there completely or not at all. */
async function initialise(programs: string, data: string, account: Account | null): Promise<void> {
  const fresh = `${data}.new`;
  await rm(fresh, { recursive: true, force: true });
  await mkdir(fresh, { mode: 0o700 });
  if (account !== null) await chown(fresh, account.uid, account.gid);
  const run = promisify(execFile);
  try {
    await run(
      join(programs, 'bin', 'initdb'),
      ['-D', fresh, '-U', USER, '-A', 'trust', '--no-sync', '--locale=C', '--encoding=UTF8', '--no-instructions'],
      { ...account, cwd: '/', env: serverEnvironment() },
    );
  } catch (cause) {
    await rm(fresh, { recursive: true, force: true });
    const output = cause instanceof Error && 'stderr' in cause ? String(cause.stderr).trim() : '';
    throw new Error(`The embedded database could not be created: ${output}`, { cause });
  }
  await writeFile(
    join(fresh, 'pg_hba.conf'),
    'local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\nhost all all ::1/128 scram-sha-256\n',
  );
  await rename(fresh, data);
}

async function requireVersion(data: string, major: number): Promise<void> {
  const found = (await readFile(join(data, 'PG_VERSION'), 'utf8').catch(() => '')).trim();
  if (found === String(major)) return;
  throw new Error(
    found === ''
      ? `The directory ${data} is not a PostgreSQL cluster; move it away or set SVC_DATA_DIR`
      : `The embedded database in ${data} was made by PostgreSQL ${found}, and this build brings ${major}; ` +
          'dump it with the old build and load it with the new one',
  );
}

async function socketDirectory(home: Home): Promise<string> {
  const beside = join(home.directory, 'run');
  const directory =
    Buffer.byteLength(socketPath({ socketDirectory: beside, port: 65535 })) <= SOCKET_PATH_BYTES_MAX
      ? beside
      : temporarySocketDirectory(join(home.directory, 'pg'));
  await mkdir(directory, { recursive: true, mode: 0o700 });
  if (home.account !== null) await chown(directory, home.account.uid, home.account.gid);
  const owner = (await stat(directory)).uid;
  if (owner !== (home.account?.uid ?? process.getuid?.() ?? owner)) {
    throw new Error(`The socket directory ${directory} belongs to somebody else`);
  }
  return directory;
}

function temporarySocketDirectory(data: string): string {
  return join(tmpdir(), `callboard-${createHash('sha256').update(data).digest('hex').slice(0, 12)}`);
}

/** Creates the database of the service when it is not there, sets the password, and says how to reach it. */
async function prepareDatabase(address: Address, options: ClusterOptions): Promise<string> {
  const socketUrl = (database: string) =>
    `postgres://${USER}@/${database}?host=${encodeURIComponent(address.socketDirectory)}&port=${address.port}`;
  const client = new pg.Client({ connectionString: socketUrl('postgres') });
  client.on('error', () => {});
  await client.connect();
  try {
    const found = await client.query('select 1 from pg_database where datname = $1', [USER]);
    if (found.rowCount === 0) await client.query(`create database ${USER}`);
    if (options.tcp !== undefined) {
      await client.query(`alter role ${USER} password ${client.escapeLiteral(options.tcp.password)}`);
    }
  } finally {
    await client.end();
  }
  if (options.tcp === undefined) return socketUrl(USER);
  return `postgres://${USER}:${encodeURIComponent(options.tcp.password)}@127.0.0.1:${options.tcp.port}/${USER}`;
}
