/**
 * One process at a time prepares or starts the database of a data directory. The lock is a file that names its
 * holder; a holder that is gone, or has the number of this very process without being it (process numbers repeat in
 * containers), does not count.
 */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

const held = new Set<string>();

const POLL_MS = 25;

/** Runs `work` under the lock; waits up to `patienceMs` for it, then throws. */
export async function underLock<T>(path: string, patienceMs: number, work: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + patienceMs;
  while (!(await take(path))) {
    const holder = await readFile(path, 'utf8').catch(() => null);
    if (holder !== null && !isHeld(path, Number(holder))) {
      await rm(path, { force: true });
      continue;
    }
    if (Date.now() > deadline)
      throw new Error(`Another process keeps starting the embedded database; lock file ${path}`);
    await delay(POLL_MS);
  }
  held.add(path);
  try {
    return await work();
  } finally {
    held.delete(path);
    await rm(path, { force: true });
  }
}

async function take(path: string): Promise<boolean> {
  try {
    await writeFile(path, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

function isHeld(path: string, pid: number): boolean {
  // An empty file is a holder between creating and writing it.
  if (pid === 0) return true;
  if (pid === process.pid) return held.has(path);
  return isAlive(pid);
}

/** True when a process of that number exists, whoever owns it. */
export function isAlive(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
