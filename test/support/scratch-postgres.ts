/**
 * A PostgreSQL for tests that need one of their own, as a program: starts an embedded server with an empty data
 * directory on a free TCP port of 127.0.0.1, prints its address as one line, and stops when it is told to
 * (SIGTERM, SIGINT). Nothing of it is left behind.
 *
 *   node test/support/scratch-postgres.ts
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEmbedded } from '../../src/embedded/embedded-postgres.ts';
import { createLog } from '../../src/log.ts';

const folder = await mkdtemp(join(tmpdir(), 'callboard-scratch-'));
const log = createLog({ level: 'warn', format: null, component: 'scratch', sink: process.stderr });
const tcp = { port: await freeTcpPort(), password: randomBytes(12).toString('hex') };
const database = await startEmbedded(folder, log, { tcp });

let stopping = false;
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => void stop());
process.stdout.write(`${database.url}\n`);

async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  await database.stop();
  await rm(folder, { recursive: true, force: true });
  process.exit(0);
}

function freeTcpPort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        typeof address === 'object' && address !== null ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}
