/**
 * How long do stranded commands wait? A server is left with thousands of commands that nobody was told of, and dies; another one
 * starts with one worker and default settings. Printed: the time until all are done, and what the reaper's plain arithmetic
 * (one full sweep an interval) would have taken. `npm exec node bench/stranded.ts`
 */
import { spawn } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { Pool } from 'undici';
import { readConfig } from '../src/config.ts';
import { startEmbedded } from '../src/embedded/embedded-postgres.ts';
import { silentLog } from '../src/log.ts';
import { startServer } from '../src/server.ts';
import { chain } from './load.ts';

const COUNT = Number(process.env['BENCH_COUNT'] ?? 10_000);
const WIDTH = 64;
const CALLBOARD = fileURLToPath(new URL('../src/cli/callboard.mjs', import.meta.url));

const folder = await mkdtemp(join(tmpdir(), 'callboard-stranded-'));
await chmod(folder, 0o755);
const database = await startEmbedded(folder, silentLog);
const config = readConfig({ SVC_DATABASE_URL: database.url, SVC_DATA_DIR: folder, SVC_PORT: '0' });
const client = new pg.Client({ connectionString: database.url });
await client.connect();

const first = await startServer(config, { log: silentLog });
const http = new Pool(first.url, { connections: WIDTH });
await post('/api/catalog/register', { content: chain('bench/one', 1) });
let started = 0;
await Promise.all(
  Array.from({ length: WIDTH }, async () => {
    while (started < COUNT) {
      started += 1;
      await post('/api/execute', { path: 'bench/one' });
    }
  }),
);
await http.close();
await first.stop();
await client.query(`update core.command set next_wake_at = now() - interval '1 minute' where status = 'PENDING'`);
console.log(`${started} commands are stranded`);

const begin = performance.now();
const second = await startServer(config, { log: silentLog });
const worker = spawn(process.execPath, [...process.execArgv, CALLBOARD, 'worker'], {
  env: { ...process.env, SVC_SERVER_URL: second.url, SVC_WORKER_CONCURRENCY: '64', SVC_LOG_LEVEL: 'warn' },
  stdio: ['ignore', 'inherit', 'inherit'],
});
let left = started;
while (left > 0) {
  await new Promise((resolve) => setTimeout(resolve, 500));
  const { rows } = await client.query<{ n: number }>(
    `select count(*)::int as n from core.execution where status = 'running'`,
  );
  left = rows[0]?.n ?? 0;
}
const seconds = (performance.now() - begin) / 1000;
const { rows: ends } = await client.query(`select status, count(*)::int as n from core.execution group by status`);
console.log(`all done after ${seconds.toFixed(1)} s: ${JSON.stringify(ends)}`);
console.log(
  `one full sweep an interval: ${((started / config.reaperMaxPerRun) * config.reaperIntervalSeconds) / 60} min`,
);

const gone = new Promise((resolve) => worker.once('exit', resolve));
worker.kill('SIGTERM');
await gone;
await second.stop();
await client.end();
await database.stop();
await rm(folder, { recursive: true, force: true });

async function post(path: string, body: unknown): Promise<void> {
  const answer = await http.request({
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await answer.body.text();
  if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode} ${text}`);
}
