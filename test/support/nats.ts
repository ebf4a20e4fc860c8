/** A real nats-server with JetStream for a test file, where the machine has one (Debian: apt-get install nats-server). */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

/** The binary, also where Debian puts it and an ordinary user's search path does not look; null where there is none. */
export const natsBinary: string | null =
  [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/bin']
    .map((folder) => join(folder, 'nats-server'))
    .find((path) => existsSync(path)) ?? null;

/** For the title of a suite that needs the server. */
export const withoutNats = natsBinary === null ? ' (skipped: no nats-server on this machine)' : '';

export interface TestNats extends AsyncDisposable {
  readonly port: number;
  /** `127.0.0.1:<port>` */
  readonly server: string;
  /** SIGKILL, and waits until it is gone. What it had on disk stays. */
  kill(): Promise<void>;
  /** Another one in its place, with other arguments if they are given. */
  start(...args: readonly string[]): Promise<void>;
}

/** Rejects when the server does not get ready; `args` are added to its command line. */
export async function startTestNats(...args: readonly string[]): Promise<TestNats> {
  const folder = await mkdtemp(join(tmpdir(), 'callboard-nats-'));
  const port = await freePort();
  let running = await run(folder, port, args);
  return {
    port,
    server: `127.0.0.1:${port}`,
    kill: () => running.kill(),
    async start(...other) {
      await running.kill();
      running = await run(folder, port, other.length > 0 ? other : args);
    },
    async [Symbol.asyncDispose]() {
      await running.kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function run(folder: string, port: number, args: readonly string[]): Promise<{ kill(): Promise<void> }> {
  const child = spawn(natsBinary ?? 'nats-server', ['-a', '127.0.0.1', '-p', String(port), '-sd', folder, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  let said = '';
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    void ended.then(() => reject(new Error(`nats-server ended: ${said}`)));
    child.stderr.on('data', (text: Buffer) => {
      said += text.toString('utf8');
      if (said.includes('Server is ready')) resolve();
    });
  });
  return {
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve));
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  if (typeof address !== 'object' || address === null) throw new Error('no port');
  return address.port;
}
