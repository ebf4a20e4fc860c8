/**
 * Once per test run: names the directory in which the run's PostgreSQL will live if a test asks for one, and takes it
 * away at the end. Leftovers of runs that were killed are removed first.
 */
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { closeCluster } from '../../src/embedded/cluster.ts';
import { isAlive } from '../../src/embedded/start-lock.ts';
import { dropTemplate } from './postgres.ts';

const PREFIX = 'callboard-test-';

export default async function setup(): Promise<() => Promise<void>> {
  for (const name of await readdir(tmpdir())) {
    const pid = /^callboard-test-(\d+)$/.exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid))) await discard(join(tmpdir(), name)).catch(() => {});
  }
  const directory = join(tmpdir(), `${PREFIX}${process.pid}`);
  await mkdir(directory, { recursive: true });
  process.env['CALLBOARD_TEST_RUN'] = directory;
  return async () => {
    await dropTemplate();
    await discard(directory);
  };
}

async function discard(directory: string): Promise<void> {
  if (existsSync(directory)) await closeCluster(directory);
  await rm(directory, { recursive: true, force: true });
}
