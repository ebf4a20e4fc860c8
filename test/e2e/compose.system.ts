/** What `compose.yaml` tells its server to do, done here without containers: the first start makes a key, later ones use it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load } from 'js-yaml';
import { afterEach, expect, test } from 'vitest';
import { startTestPostgres } from '../support/postgres.ts';
import { freePort, Stage } from '../support/processes.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

interface Compose {
  readonly services: {
    readonly server: {
      readonly entrypoint: readonly string[];
      readonly command: readonly string[];
      readonly environment: Readonly<Record<string, string>>;
    };
  };
}

const stage = new Stage();
afterEach(() => stage.close());

test('the server of compose.yaml makes its key once and starts beyond loopback', async () => {
  // Its shape is what this test is about: another one fails below.
  const { server } = (load(readFileSync(join(ROOT, 'compose.yaml'), 'utf8')) as Compose).services;
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const data = await stage.folder();
  const words = [...server.entrypoint, ...server.command].map((word) =>
    word.replaceAll('$$', '$').replaceAll('/data/', `${data}/`).replace('exec node', `exec '${process.execPath}'`),
  );
  const environment = {
    SVC_PUBLIC_URL: String(server.environment['SVC_PUBLIC_URL']),
    SVC_ALLOWED_HOSTS: String(server.environment['SVC_ALLOWED_HOSTS']),
    SVC_ENCRYPTION_KEY: '',
    SVC_HOST: '0.0.0.0',
    SVC_PORT: String(await freePort()),
    SVC_DATA_DIR: data,
    SVC_DATABASE_URL: postgres.url,
  };

  async function startAndStop(): Promise<string> {
    const [program = '', ...rest] = words;
    const child = spawn(program, rest, { cwd: ROOT, env: { ...process.env, ...environment } });
    const ended = once(child, 'exit');
    let said = '';
    let isTold = false;
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        said += String(chunk);
        // Once: a second signal ends it at once.
        if (isTold || !said.includes('The server listens')) return;
        isTold = child.kill('SIGTERM');
      });
    expect([(await ended)[0], said]).toEqual([0, expect.stringContaining('The server listens')]);
    return readFile(join(data, 'compose.key'), 'utf8');
  }

  const key = await startAndStop();
  expect(Buffer.from(key, 'base64')).toHaveLength(32);
  expect((await stat(join(data, 'compose.key'))).mode & 0o777).toBe(0o600);
  expect(await startAndStop()).toBe(key);
});
