import { spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const script = fileURLToPath(new URL('./lonely-worker.ts', import.meta.url));

/** Waits for a condition that another process brings about. */
async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** Pids of living processes whose command line or environment marks them as children of this test. */
async function marked(mark: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(
    pids.map(async (pid) => {
      const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ') X');
      return environment.includes(mark) && !/\) [ZX]/.test(stat) ? [pid] : [];
    }),
  );
  return found.flat();
}

describe.runIf(process.platform === 'linux')('a worker that is killed', () => {
  it('takes every task and every helper process with it', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'callboard-lonely-'));
    // TMPDIR is one of the variables children get, so it marks them all.
    const env = { ...process.env, TMPDIR: folder };
    const worker = spawn(process.execPath, [script, folder], { env, stdio: 'ignore' });
    await until(async () => (await readdir(folder)).filter((name) => name.endsWith('.pid')).length === 3);
    await until(async () => (await marked(`TMPDIR=${folder}`)).length >= 9);
    worker.kill('SIGKILL');
    await until(async () => (await marked(`TMPDIR=${folder}`)).length === 0);
    expect((await readdir(folder)).filter((name) => name.startsWith('callboard-py-'))).toEqual([]);
    await rm(folder, { recursive: true });
  });
});
