/** `callboard run` and `callboard dev` as a newcomer uses them: real server, worker and database, in a folder of their own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { closeCluster } from '../../src/embedded/cluster.ts';

const LAUNCHER = fileURLToPath(new URL('../../src/cli/callboard.mjs', import.meta.url));
const EXAMPLES = fileURLToPath(new URL('../../examples/', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'callboard-run-'));
const data = join(folder, 'data');

afterAll(async () => {
  await closeCluster(data);
  rmSync(folder, { recursive: true, force: true });
});

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

describe('callboard run', { timeout: 120_000 }, () => {
  test('runs the first example and prints its result alone on stdout', async () => {
    const ended = await callboard('run', join(EXAMPLES, 'hello.yaml'), '--set', 'who=you');
    expect(ended.err).toContain('completed');
    expect(ended.code).toBe(0);
    expect(JSON.parse(ended.out)).toEqual({ greeting: 'Hello, you!', long_name: false });
  });

  test.each([
    ['fan-out.yaml', [], 0, { net: 213.25, documents: 5 }],
    [
      'loop.yaml',
      ['--set', 'items=10'],
      0,
      { rounds: 10, failed: 0, sum_of_squares: 285, last: { number: 9, square: 81 } },
    ],
    ['retry.yaml', [], 0, { tries: 3, answer: { answered_on_try: 3 } }],
    [
      'errors.yaml',
      [],
      0,
      { receipt: null, reason: expect.stringContaining('cannot charge 0'), code: 'JS_RangeError' },
    ],
    ['errors.yaml', ['--set', 'amount=20'], 0, { receipt: 20 }],
    ['retry.yaml', ['--set', 'fails=9'], 1, null],
  ])('%s %j ends with code %d', async (file, further, code, result) => {
    const ended = await callboard('run', join(EXAMPLES, file), '--json', ...further);
    expect(ended.code, ended.err).toBe(code);
    expect(JSON.parse(ended.out)).toMatchObject({ status: code === 0 ? 'completed' : 'failed', result });
  });

  test('shows how far a loop is', async () => {
    const ended = await callboard('run', join(EXAMPLES, 'loop.yaml'), '--set', 'items=10');
    expect(ended.err).toMatch(/start +python loop .* 10\/10/);
  });

  test('a time limit cancels the run, exit code 4', async () => {
    const file = playbook('slow', 'kind: shell, command: sleep 60');
    const ended = await callboard('run', file, '--timeout', '1');
    expect(ended.code, ended.err).toBe(4);
    expect(ended.err).toContain('Time limit of 1 s');
  });

  test('an interrupt cancels the run, exit code 3', async () => {
    const child = start('run', playbook('interrupted', 'kind: shell, command: sleep 60'));
    const ended = end(child);
    await seen(child, 'stderr', 'start  shell');
    child.kill('SIGINT');
    expect((await ended).code).toBe(3);
  });

  test('an invalid playbook starts nothing, exit code 2', async () => {
    const ended = await callboard('run', playbook('bad', 'kind: nonsense'));
    expect(ended.code).toBe(2);
    expect(ended.err).toContain('tool_kind_unknown');
  });
});

describe('callboard dev', { timeout: 120_000 }, () => {
  test('serves the examples until it is told to stop, and another process can use it', async () => {
    const child = start('dev');
    const ended = end(child);
    const text = await seen(child, 'stdout', 'Ctrl-C stops it');
    const url = /address +(\S+)/.exec(text)?.[1] ?? '';
    expect(text).toContain('examples/hello');
    const nested = await callboard('run', join(EXAMPLES, 'nested.yaml'), '--server', url);
    expect(nested.code, nested.err).toBe(0);
    expect(JSON.parse(nested.out)).toMatchObject({ greetings: ['Hello, Ada!', 'Hello, Grace!', 'Hello, Barbara!'] });
    const listed = await callboard('list', '--server', url, '--path', 'examples/nested');
    expect(listed.out).toContain('completed');
    child.kill('SIGTERM');
    expect((await ended).code).toBe(0);
  });

  test('a port that was asked for and is taken is an error with a remedy, exit code 4', async () => {
    const child = start('dev');
    const ended = end(child);
    const text = await seen(child, 'stdout', 'Ctrl-C stops it');
    const port = /address +http:\/\/[^:]+:(\d+)/.exec(text)?.[1] ?? '';
    const second = await end(spawnWith({ SVC_PORT: port }, 'dev'));
    expect(second.code).toBe(4);
    expect(second.err).toContain(`port ${port}`);
    child.kill('SIGINT');
    expect((await ended).code).toBe(0);
  });
});

function playbook(name: string, tool: string): string {
  const file = join(folder, `${name}.yaml`);
  writeFileSync(
    file,
    `apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: ${name} }\nworkflow:\n  - step: start\n    tool: { ${tool} }\n`,
  );
  return file;
}

function callboard(...argv: readonly string[]): Promise<Ended> {
  return end(start(...argv));
}

function start(...argv: readonly string[]): ChildProcess {
  return spawnWith({ SVC_PORT: '0' }, ...argv);
}

function spawnWith(env: Record<string, string>, ...argv: readonly string[]): ChildProcess {
  return spawn(process.execPath, [LAUNCHER, ...argv], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], NO_COLOR: '1', SVC_DATA_DIR: data, ...env },
  });
}

function end(child: ChildProcess): Promise<Ended> {
  let out = '';
  let err = '';
  child.stdout?.on('data', (chunk) => {
    out += chunk;
  });
  child.stderr?.on('data', (chunk) => {
    err += chunk;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, out, err }));
  });
}

/** What was printed so far, once it contains `text`. Rejects when the process ends before. */
function seen(child: ChildProcess, stream: 'stdout' | 'stderr', text: string): Promise<string> {
  let all = '';
  return new Promise((resolve, reject) => {
    child[stream]?.on('data', (chunk) => {
      all += chunk;
      if (all.includes(text)) resolve(all);
    });
    child.once('close', () => reject(new Error(`it ended before it said '${text}': ${all}`)));
  });
}
