/** `callboard dev` as a process of its own with an empty data folder, and calls to it. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ENTRY = fileURLToPath(new URL('../../../src/cli/callboard.mjs', import.meta.url));
const READY_MS = 60_000;

export interface Server {
  readonly base: string;
  call(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Record<string, unknown>>;
  /** Starts a playbook and waits for its end; its number. */
  run(path: string, workload?: Record<string, unknown>, waitMs?: number): Promise<number>;
}

export interface DevServer extends Server {
  stop(): Promise<void>;
}

export async function startDevServer(settings: Readonly<Record<string, string>> = {}): Promise<DevServer> {
  const folder = await mkdtemp(join(tmpdir(), 'callboard-gui-'));
  const env = { ...process.env, ...settings, SVC_DATA_DIR: folder, SVC_PORT: '0', SVC_HOST: '127.0.0.1' };
  const child = spawn(process.execPath, [ENTRY, 'dev'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise<void>((resolve) => child.on('exit', () => resolve()));
  let words = '';
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  child.stderr.on('data', (chunk: Buffer) => {
    words = (words + chunk.toString()).slice(-4000);
  });
  child.stdout.on('data', (chunk: Buffer) => {
    words += chunk.toString();
    // Examples are registered before the welcome is printed.
    const found = /address\s+(http:\S+)/.exec(words)?.[1];
    if (found !== undefined) resolve(found);
  });
  child.on('exit', (code) => reject(new Error(`callboard dev ended with ${code}: ${words}`)));
  const timer = setTimeout(() => reject(new Error(`callboard dev is not ready: ${words}`)), READY_MS);
  const base = await promise.finally(() => clearTimeout(timer));
  return {
    ...callsTo(base),
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export function callsTo(base: string): Server {
  const call: Server['call'] = async (method, path, body, headers = {}) => {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const answer: unknown = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
    // Every JSON answer that is asked for here is an object.
    return answer as Record<string, unknown>;
  };
  return {
    base,
    call,
    run: async (path, workload = {}, waitMs = 20_000) =>
      Number((await call('POST', '/api/execute', { path, workload, wait_ms: waitMs }))['execution_id']),
  };
}
