/**
 * The server process of one PostgreSQL data directory: is it there, start it, stop it. What tells is `postmaster.pid`,
 * and not alone: after a crash its number may belong to a stranger, so the process must also work in that directory.
 */
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { chown, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Account } from './account.ts';
import { isAlive } from './start-lock.ts';

export interface Address {
  readonly socketDirectory: string;
  readonly port: number;
}

export interface LaunchOptions {
  readonly programs: string;
  readonly data: string;
  readonly address: Address;
  readonly account: Account | null;
  readonly settings: Readonly<Record<string, string>>;
  readonly logFile: string;
}

const READY_WITHIN_MS = 120_000;
const STOP_WITHIN_MS = 15_000;
const LOG_FILE_BYTES_MAX = 16 * 1024 * 1024;

/** The server that works on this data directory, or null. Null too when `postmaster.pid` is a leftover. */
export function findPostmaster(data: string): { pid: number; address: Address } | null {
  const lines = readLines(join(data, 'postmaster.pid'));
  const pid = Number(lines[0]);
  if (!isAlive(pid) || !worksIn(pid, data)) return null;
  return { pid, address: { port: Number(lines[3]), socketDirectory: lines[4] ?? '' } };
}

/** Starts the server detached, so that a Ctrl-C in the terminal reaches us first, and waits until it answers. */
export async function launch(options: LaunchOptions): Promise<number> {
  const { data, address, account } = options;
  await rm(join(data, 'postmaster.pid'), { force: true });
  const socket = socketPath(address);
  await rm(socket, { force: true });
  await rm(`${socket}.lock`, { force: true });
  const settings = Object.entries(options.settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const tooBig = existsSync(options.logFile) && statSync(options.logFile).size > LOG_FILE_BYTES_MAX;
  // A file and not a pipe: the server may outlive this process.
  const log = openSync(options.logFile, tooBig ? 'w' : 'a', 0o600);
  const child = spawn(join(options.programs, 'bin', 'postgres'), ['-D', data, ...settings], {
    ...account,
    cwd: '/',
    detached: true,
    stdio: ['ignore', log, log],
    env: serverEnvironment(),
  });
  closeSync(log);
  if (account !== null) await chown(options.logFile, account.uid, account.gid);
  const failed = new Promise<never>((_, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) =>
      reject(new Error(`PostgreSQL ended while starting (${signal ?? code}): ${tail(options.logFile)}`)),
    );
  });
  failed.catch(() => {});
  child.unref();
  await Promise.race([failed, answers(data, address)]);
  child.removeAllListeners('exit');
  // A spawned process that has not failed has a number.
  return child.pid ?? 0;
}

/** Resolves when the server accepts sessions; throws after two minutes. */
export async function answers(data: string, address: Address): Promise<void> {
  const deadline = Date.now() + READY_WITHIN_MS;
  while (Date.now() < deadline) {
    // The last line of postmaster.pid tells when recovery is over; the socket opens before.
    const state = (readLines(join(data, 'postmaster.pid'))[7] ?? '').trim();
    if (state === 'ready' && (await accepts(socketPath(address)))) return;
    await delay(5);
  }
  throw new Error('PostgreSQL did not become ready within two minutes');
}

/** Fast shutdown: sessions are ended, data is written. After 15 s immediate, which only costs recovery at the next start. */
export async function shutDown(data: string, pid: number): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
    try {
      process.kill(pid, signal);
    } catch {
      return;
    }
    const deadline = Date.now() + STOP_WITHIN_MS;
    while (Date.now() < deadline) {
      if (!isAlive(pid) || findPostmaster(data)?.pid !== pid) return;
      await delay(5);
    }
  }
  throw new Error('PostgreSQL does not stop');
}

export function socketPath(address: Address): string {
  return join(address.socketDirectory, `.s.PGSQL.${address.port}`);
}

/** Nothing of our environment but what a program needs: a stray PGDATA or LD_PRELOAD must not reach the server. */
export function serverEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' };
}

function worksIn(pid: number, data: string): boolean {
  const real = realpathSync(data);
  if (process.platform === 'linux') {
    try {
      return readlinkSync(`/proc/${pid}/cwd`) === real;
    } catch {
      return false;
    }
  }
  try {
    const command = execFileSync('ps', ['-p', String(pid), '-o', 'command='], { encoding: 'utf8' });
    return command.includes('postgres') && (command.includes(data) || command.includes(real));
  } catch {
    return false;
  }
}

function accepts(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

function readLines(path: string): readonly string[] {
  try {
    return readFileSync(path, 'utf8').split('\n');
  } catch {
    return [];
  }
}

function tail(path: string): string {
  return readLines(path).filter(Boolean).slice(-5).join(' | ');
}
