/** Database, server and worker for the benchmarks, as the product starts them; everything in a folder that is removed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startEmbedded } from '../src/embedded/embedded-postgres.ts';
import { silentLog } from '../src/log.ts';

export interface Stack {
  readonly url: string;
  readonly databaseUrl: string;
  readonly server: ChildProcess;
  stop(): Promise<void>;
}

const CALLBOARD = fileURLToPath(new URL('../src/cli/callboard.mjs', import.meta.url));

export interface StackOptions {
  /** Each a process of its own; `within`: one in the server's process, as with `npm start`. */
  readonly workers: number | 'within';
  readonly concurrency: number;
}

export async function startStack({ workers, concurrency }: StackOptions): Promise<Stack> {
  const folder = await mkdtemp(join(tmpdir(), 'callboard-bench-'));
  await chmod(folder, 0o755);
  const database = await startEmbedded(folder, silentLog, {
    settings: { shared_preload_libraries: 'pg_stat_statements', 'pg_stat_statements.track_utility': 'on' },
  });
  const port = await freePort();
  const env = {
    ...process.env,
    SVC_DATABASE_URL: database.url,
    SVC_DATA_DIR: folder,
    SVC_PORT: String(port),
    SVC_LOG_LEVEL: 'warn',
    SVC_SERVER_URL: `http://127.0.0.1:${port}`,
    SVC_WORKER_CONCURRENCY: String(concurrency),
  };
  const children: ChildProcess[] = [];
  const start = (args: readonly string[]) => {
    const child = spawn(process.execPath, [...process.execArgv, CALLBOARD, ...args], {
      env,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    children.push(child);
    return child;
  };
  const url = `http://127.0.0.1:${port}`;
  const server = start([workers === 'within' ? 'dev' : 'server']);
  await ready(`${url}/api/health`, () => true);
  const beside = workers === 'within' ? 0 : workers;
  for (let index = 0; index < beside; index += 1) start(['worker']);
  await ready(
    `${url}/api/worker/pools?status=ready&kind=worker_pool`,
    (body) => (body as { count: number }).count >= (workers === 'within' ? 1 : workers),
  );
  return {
    url,
    databaseUrl: database.url,
    server,
    async stop() {
      for (const child of children.toReversed()) await ended(child);
      await database.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function ready(url: string, isReady: (body: unknown) => boolean): Promise<void> {
  for (let attempt = 0; attempt < 300; attempt += 1) {
    const answer = await fetch(url).catch(() => null);
    if (answer?.ok && isReady(await answer.json())) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${url} did not become ready`);
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const exit = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await exit;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}
